"""Sweeps as objects, whoever wrote them."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from gangline.errors import StorageError
from gangline.kube import GenericObject, KubeClient, Metadata
from gangline.model import Tenant
from gangline.model.sweep import SWEEP_LABEL
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.sweeps import SWEEP_ID, SweepObjects, object_to_sweep, sweep_to_status
from gangline.testing.builders import make_job, make_sweep

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


def test_a_sweep_applied_by_hand_begins_its_life() -> None:
    sweep = object_to_sweep(item(SPEC), Tenant("vision"))
    assert (sweep.id, sweep.name, sweep.tenant, sweep.version) == ("1-2-3-4-5", "grid", "vision", 7)
    assert (sweep.begun, sweep.finished_at, sweep.spec.template.queue) == (0, None, "red")


def test_progress_is_kept_in_the_status() -> None:
    status = sweep_to_status(make_sweep(sweep_id="s1", begun=2, stopped=True))
    sweep = object_to_sweep(item(SPEC, status), Tenant("vision"))
    assert (sweep.id, sweep.begun, sweep.stopped) == ("1-2-3-4-5", 2, True), "who it is, its status does not say"
    assert (status["state"], status["begun"]) == ("stopping", 2)


def test_what_is_no_sweep_is_named() -> None:
    with pytest.raises(StorageError, match=r"vision/grid.*spec.parameters.rate"):
        object_to_sweep(item({**SPEC, "parameters": {"rate": []}}), Tenant("vision"))


class Cluster:
    """Lists one sweep."""

    async def list(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(items=[item(SPEC)])


async def test_a_trial_belongs_to_its_sweep_and_another_job_does_not() -> None:
    client = cast(KubeClient, Cluster())
    sweeps = SweepObjects(client, JobObjects(client, prefix="", namespace=None))
    (sweep,) = await sweeps.all(None)
    trial = make_job(job_id=sweep.trial_id(3), labels={SWEEP_LABEL: sweep.name})
    owner = sweeps.owner_of_trial(trial, "vision")
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("Sweep", "grid", "1-2-3-4-5")
    assert sweeps.owner_of_trial(make_job(job_id=sweep.trial_id(3)), "vision") is None
    assert sweeps.owner_of_trial(trial, "speech") is None, "nobody's trial belongs to a sweep of another tenant"


@pytest.mark.parametrize("forged_first", [False, True])
async def test_nobody_has_a_hand_in_a_sweep_of_another_tenant_by_bearing_its_id(*, forged_first: bool) -> None:
    def made(namespace: str, day: int) -> GenericObject:
        status = sweep_to_status(make_sweep(sweep_id="s1"))
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

    client = cast(KubeClient, Both())
    sweeps = SweepObjects(client, JobObjects(client, prefix="", namespace=None))
    await sweeps.all(None)
    (kept,) = await sweeps.all(None)
    assert kept.tenant == "vision"
    trial = make_job(job_id=kept.trial_id(0), labels={SWEEP_LABEL: kept.name})
    owner = sweeps.owner_of_trial(trial, "vision")
    assert owner is not None
    assert owner.uid == "uid-vision"


def test_a_sweep_is_as_old_as_its_object() -> None:
    client = cast(KubeClient, Cluster())
    sweeps = SweepObjects(client, JobObjects(client, prefix="", namespace=None))
    old = item(SPEC, sweep_to_status(make_sweep(sweep_id="s1", at=1.0)))
    assert sweeps._read(old).created_at == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
