"""Sweeps as objects, whoever wrote them."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from gangline.errors import StorageError
from gangline.kube import GenericObject, KubeClient, Metadata
from gangline.model import Tenant
from gangline.model.sweep import SWEEP_LABEL
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.sweeps import SweepObjects, object_to_sweep, sweep_to_status
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
    assert (sweep.id, sweep.begun, sweep.stopped) == ("s1", 2, True)
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
    owner = sweeps.owner_of_trial(trial)
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("Sweep", "grid", "1-2-3-4-5")
    assert sweeps.owner_of_trial(make_job(job_id=sweep.trial_id(3))) is None
