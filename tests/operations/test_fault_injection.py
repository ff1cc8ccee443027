"""Killing single replicas on request."""

import pytest

from gangline import operations
from gangline.engines.interface import FaultInjector
from gangline.errors import ConflictError, EngineError, InvalidInputError
from gangline.model import DEFAULT_TENANT, GangId, ReplicaId
from gangline.testing.builders import make_job, make_running_job
from tests.operations.fakes import Office, QuietEngine

WORKER = ReplicaId.parse("worker-0")


class CruelEngine(QuietEngine):
    """Remembers whom it was told to kill."""

    def __init__(self) -> None:
        super().__init__()
        self.killed: list[tuple[GangId, ReplicaId]] = []

    async def kill(self, gang_id: GangId, replica: ReplicaId) -> bool:
        self.killed.append((gang_id, replica))
        return True


_conforms: type[FaultInjector] = CruelEngine


@pytest.fixture
def cruel(office: Office) -> CruelEngine:
    office.engine = engine = CruelEngine()
    return engine


async def test_a_running_replica_is_killed(office: Office, cruel: CruelEngine) -> None:
    job = await office.store.create(make_running_job())
    assert await operations.kill(office.context(), DEFAULT_TENANT, "mnist", WORKER)
    assert cruel.killed == [(job.gang_id, WORKER)]


async def test_a_replica_that_does_not_run_is_refused(office: Office, cruel: CruelEngine) -> None:
    await office.store.create(make_running_job())
    with pytest.raises(InvalidInputError, match="one of worker-0"):
        await operations.kill(office.context(), DEFAULT_TENANT, "mnist", ReplicaId.parse("worker-7"))
    await office.store.create(make_job(name="waiting", job_id="job-2"))
    with pytest.raises(InvalidInputError, match="no replica"):
        await operations.kill(office.context(), DEFAULT_TENANT, "waiting", WORKER)
    assert cruel.killed == []


async def test_a_replica_that_has_not_started_is_a_conflict(office: Office, cruel: CruelEngine) -> None:
    from gangline.lifecycle import advance
    from gangline.lifecycle.events import GangPlaced
    from gangline.testing.builders import make_placement

    job = make_job()
    placed = advance(job, GangPlaced(job_id=job.id, at=job.created_at, placement=make_placement(job.spec))).job
    await office.store.create(placed)
    with pytest.raises(ConflictError, match="it is pending"):
        await operations.kill(office.context(), DEFAULT_TENANT, "mnist", WORKER)
    assert cruel.killed == []


async def test_an_engine_without_that_power_says_so(office: Office) -> None:
    await office.store.create(make_running_job())
    with pytest.raises(EngineError, match="cannot kill"):
        await operations.kill(office.context(), DEFAULT_TENANT, "mnist", WORKER)
