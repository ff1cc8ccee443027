"""Sweeps as objects, whoever wrote them."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from gangline.errors import StorageError
from gangline.kinds.sweep import SWEEP
from gangline.kube import GenericObject, KubeClient, Metadata
from gangline.model.kinds.sweep import SWEEP_LABEL, Sweep, SweepProgress, SweepSpec
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.record_objects import RecordObjects, record_to_status
from gangline.testing.builders import make_job, make_sweep

SWEEP_ID = "gangline.dev/sweep-id"
SPEC = {"parameters": {"rate": [1, 2]}, "template": {"spec": {"command": "train $(rate)", "queue": "red"}}}


def item(spec: dict[str, object], status: dict[str, object] | None = None) -> GenericObject:
    metadata = Metadata(
        name="grid",
        namespace="vision",
        uid="1-2-3-4-5",
        resource_version="7",
        creation_timestamp=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return GenericObject(metadata=metadata, spec=spec, status=status or {})


def objects(client: object = None) -> RecordObjects[SweepSpec, SweepProgress]:
    known = cast(KubeClient, client)
    return RecordObjects(known, JobObjects(known, prefix="", namespace=None), SWEEP)


def status_of(sweep: Sweep) -> dict[str, Any]:
    status: dict[str, Any] = record_to_status(SWEEP, sweep)["status"]
    return status


def test_a_sweep_applied_by_hand_begins_its_life() -> None:
    sweep = objects().read(item(SPEC))
    assert (sweep.id, sweep.name, sweep.tenant, sweep.version) == ("1-2-3-4-5", "grid", "vision", 7)
    assert (sweep.status, sweep.spec.template.queue) == (SweepProgress(), "red")


def test_progress_is_kept_in_the_status() -> None:
    status = status_of(make_sweep(sweep_id="s1", begun=2, stopped=True))
    sweep = objects().read(item(SPEC, status))
    assert (sweep.id, sweep.status) == ("1-2-3-4-5", SweepProgress(begun=2, stopped=True)), "its id, no status says"
    assert status["state"] == "stopping"


def test_what_is_no_sweep_is_named() -> None:
    with pytest.raises(StorageError, match=r"vision/grid.*spec.parameters.rate"):
        objects().read(item({**SPEC, "parameters": {"rate": []}}))


@pytest.mark.parametrize("record", [[], {"status": 5}, {"status": {"begun": "many"}}, {"created_at": "yesterday"}])
def test_a_status_that_somebody_damaged_is_named(record: object) -> None:
    with pytest.raises(StorageError, match="vision/grid"):
        objects().read(item(SPEC, {"record": record or [1]}))


class Cluster:
    """Lists one sweep."""

    async def list(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(items=[item(SPEC)])


async def test_a_trial_belongs_to_its_sweep_and_another_job_does_not() -> None:
    sweeps = objects(Cluster())
    (sweep,) = (await sweeps.list()).items
    trial = make_job(job_id=sweep.job_id(3), labels={SWEEP_LABEL: sweep.name})
    owner = sweeps.owner_of_job(trial, "vision")
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("Sweep", "grid", "1-2-3-4-5")
    assert sweeps.owner_of_job(make_job(job_id=sweep.job_id(3)), "vision") is None
    assert sweeps.owner_of_job(trial, "speech") is None, "nobody's trial belongs to a sweep of another tenant"


@pytest.mark.parametrize("forged_first", [False, True])
async def test_nobody_has_a_hand_in_a_sweep_of_another_tenant_by_bearing_its_id(*, forged_first: bool) -> None:
    def made(namespace: str, day: int) -> GenericObject:
        status = status_of(make_sweep(sweep_id="s1"))
        body = item(SPEC, status)
        metadata = msgspec.structs.replace(
            body.metadata,
            namespace=namespace,
            uid=f"uid-{namespace}",
            labels={SWEEP_ID: "s1"},
            creation_timestamp=datetime(2026, 1, day, tzinfo=UTC),
        )
        return msgspec.structs.replace(body, metadata=metadata)

    items = [made("vision", 1), made("speech", 2)]

    class Both:
        async def list(self, *_: object, **__: object) -> SimpleNamespace:
            return SimpleNamespace(items=items[::-1] if forged_first else items)

    sweeps = objects(Both())
    await sweeps.list()
    (kept,) = (await sweeps.list()).items
    assert kept.tenant == "vision"
    trial = make_job(job_id=kept.job_id(0), labels={SWEEP_LABEL: kept.name})
    owner = sweeps.owner_of_job(trial, "vision")
    assert owner is not None
    assert owner.uid == "uid-vision"


def test_a_sweep_is_as_old_as_its_object() -> None:
    sweeps = objects(Cluster())
    old = item(SPEC, status_of(make_sweep(sweep_id="s1", at=1.0)))
    assert sweeps.read(old).created_at == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
