"""What is held and kept of the numbers that jobs report."""

import base64
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gangline.kube import KubeClient, Metadata, NotFoundError, Owner, OwnerReference
from gangline.model import JobId, Metric, ReplicaId, RoleName, Timestamp
from gangline.storage.kubernetes import metrics as keeping
from gangline.storage.kubernetes.metrics import MetricKeeper

JOB = JobId("job-1")
REFERENCE = OwnerReference(api_version="gangline.dev/v1", kind="Job", name="mnist", uid="uid-1")


class Cluster:
    """Keeps ConfigMaps by name."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {}
        self.owner = REFERENCE

    async def get(self, _: object, name: str, **__: object) -> SimpleNamespace:
        if name not in self.kept:
            raise NotFoundError(name, status=404)
        metadata = Metadata(name=name, namespace="default", owner_references=(self.owner,))
        return SimpleNamespace(binary_data=self.kept[name], metadata=metadata)

    async def apply(self, _: object, body: dict[str, Any], **__: object) -> None:
        self.kept[body["metadata"]["name"]] = body["binaryData"]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def keeper(cluster: Cluster) -> MetricKeeper:
    return MetricKeeper(cast(KubeClient, cluster), lambda _: ("kept", Owner("default", REFERENCE)))


def losses(first: int, count: int) -> list[Metric]:
    lead = ReplicaId(RoleName("worker"), 0)
    return [
        Metric(job_id=JOB, replica=lead, name="loss", value=1.0, step=step, at=Timestamp(float(step)))
        for step in range(first, first + count)
    ]


async def test_only_the_newest_are_held_however_many_come(
    keeper: MetricKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_MOST_METRICS", 10)
    for first in range(0, 1000, 5):
        await keeper.add(losses(first, 5))
    held = await keeper.of(JOB)
    assert len(held) <= 20
    assert held[-1].step == 999
    await keeper.close()


async def test_that_older_ones_are_gone_is_known_and_the_newest_of_each_series_never_are(
    keeper: MetricKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_MOST_METRICS", 10)
    (once,) = losses(0, 1)
    once = replace(once, name="accuracy")
    await keeper.add([once, *losses(1, 9)])
    await keeper.rest(JOB)
    assert await keeper.has_all(JOB)
    await keeper.add(losses(10, 5))
    await keeper.rest(JOB)
    assert not await keeper.has_all(JOB)
    await keeper.add(losses(15, 100))
    assert not await keeper.has_all(JOB)
    for _ in range(2):
        assert [metric.name for metric in await keeper.latest([JOB])] == ["accuracy", "loss"]
        await keeper.rest(JOB)
    assert [metric.step for metric in await keeper.of(JOB)] == [0, *range(105, 115)]
    await keeper.close()


async def test_those_of_a_job_that_is_over_are_read_again_and_not_held(keeper: MetricKeeper, cluster: Cluster) -> None:
    await keeper.add(losses(0, 3))
    await keeper.rest(JOB)
    cluster.kept.clear()
    assert await keeper.of(JOB) == []
    await keeper.close()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({}, id="taken out"),
        pytest.param({"metrics.msgpack.gz": base64.b64encode(b"no gzip").decode()}, id="no archive"),
        pytest.param({"metrics.msgpack.gz": "H4sI"}, id="cut off"),
        pytest.param({"metrics.msgpack.gz": "x"}, id="no base64"),
    ],
)
async def test_what_was_damaged_by_hand_begins_anew(
    keeper: MetricKeeper, cluster: Cluster, damage: dict[str, str]
) -> None:
    cluster.kept["kept"] = damage
    await keeper.add(losses(0, 3))
    await keeper.rest(JOB)
    assert [metric.step for metric in await keeper.of(JOB)] == [0, 1, 2]
    await keeper.close()


async def test_numbers_that_somebody_put_under_the_jobs_name_are_not_its_own(
    cluster: Cluster, keeper: MetricKeeper
) -> None:
    await keeper.add(losses(0, 3))
    await keeper.rest(JOB)
    assert len(await keeper.of(JOB)) == 3
    cluster.owner = OwnerReference(api_version="gangline.dev/v1", kind="Job", name="mnist", uid="uid-of-another")
    assert await keeper.of(JOB) == []
