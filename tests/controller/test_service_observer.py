"""What is seen of services: nobody waits for the checks of one of them, and a restart forgets no replica."""

import asyncio
from collections.abc import Callable

from gangline.compose.clock import SystemClock
from gangline.controller.services import ServiceObserver
from gangline.kinds.kind import Owned
from gangline.lifecycle import advance, new_job
from gangline.lifecycle.events import GangPlaced, ReplicaStarted
from gangline.model import GangId, Job, ReplicaId, Timestamp
from gangline.model.kinds.service import Check, Checks, Service
from gangline.model.record import RecordId
from gangline.model.routing import Backend, RevisionRoute, RouterStatistics, RoutingTable, ServiceRoute
from gangline.serving import ServiceSight
from gangline.testing.builders import make_placement
from tests.controller.scripted_engine import ScriptedEngine
from tests.serving.world import GOOD, make_service, program


class AnsweringEngine(ScriptedEngine):
    """Every replica is at the port of its number; checks answer what a test says, when it says so."""

    probed = False

    def __init__(self, check: Callable[[], "asyncio.Future[str]"]) -> None:
        super().__init__()
        self._check = check
        self._kills = 0
        self.killed_again = asyncio.Event()

    def address_of(self, gang_id: GangId, replica: ReplicaId) -> str:
        return address(int(gang_id.job_id.rpartition("-")[2]))

    async def check(self, gang_id: GangId, replica: ReplicaId, check: Check) -> str:
        return await self._check()

    async def kill(self, gang_id: GangId, replica: ReplicaId) -> bool:
        self._kills += 1
        if self._kills == 1:
            raise OSError("not now")
        self.killed_again.set()
        return True


class SilentRouter:
    """A router that follows a table and counts nothing."""

    address = "http://router"

    def __init__(self, *addresses: str) -> None:
        backends = tuple(Backend(address=each) for each in addresses)
        route = ServiceRoute(name="digits", revisions=(RevisionRoute(name="1", weight=100, backends=backends),))
        self._table = RoutingTable(version=1, services=(route,))

    async def known(self) -> RoutingTable:
        return self._table

    async def tell(self, table: RoutingTable) -> None:
        self._table = table

    async def statistics(self, wait_seconds: float) -> RouterStatistics | None:
        await asyncio.sleep(wait_seconds)
        return None


def address(number: int) -> str:
    return f"127.0.0.1:{9000 + number}"


def running(service: Service, number: int) -> Job:
    spec, now = program(GOOD), Timestamp(0.0)
    job = new_job(service.job_id(number), spec, now)
    job = advance(job, GangPlaced(job_id=job.id, at=now, placement=make_placement(spec))).job
    return advance(job, ReplicaStarted(job_id=job.id, at=now, attempt=1, replica=job.replicas[0].id)).job


def observer(engine: AnsweringEngine, *addresses: str, woken: asyncio.Event | None = None) -> ServiceObserver:
    def wake(record_id: RecordId) -> None:
        if woken is not None:
            woken.set()

    return ServiceObserver(engine=engine, router=SilentRouter(*addresses), clock=SystemClock(), wake=wake)


async def ended(watching: ServiceObserver) -> None:
    """Let an observer end as it does with its process."""
    task = asyncio.create_task(watching.run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def unanswered() -> "asyncio.Future[str]":
    return asyncio.get_running_loop().create_future()


async def test_nobody_waits_for_a_check_that_does_not_come_back() -> None:
    service = make_service()
    watching = observer(AnsweringEngine(unanswered), address(1))
    owned = Owned(jobs=(running(service, 1), running(service, 2)))
    async with asyncio.timeout(60):
        sight = await watching.look(service, owned)
    await ended(watching)
    assert isinstance(sight, ServiceSight)
    assert sight.ready(1), "the router has it from before the restart"
    assert not sight.ready(2), "nobody knows yet"


async def test_replica_that_does_not_answer_any_more_goes_after_a_restart() -> None:
    """The router's table is believed until the checks say something else."""
    service, woken = make_service(checks=Checks(ready=Check(failures=1))), asyncio.Event()

    def refused() -> "asyncio.Future[str]":
        answer = unanswered()
        answer.set_result("connection refused")
        return answer

    watching = observer(AnsweringEngine(refused), address(1), woken=woken)
    owned = Owned(jobs=(running(service, 1),))
    async with asyncio.timeout(60):
        await watching.look(service, owned)
        await woken.wait()
        sight = await watching.look(service, owned)
    await ended(watching)
    assert isinstance(sight, ServiceSight)
    assert not sight.ready(1)
    assert sight.replicas[1].message == "connection refused"


async def test_checks_go_on_when_a_replica_cannot_be_killed() -> None:
    checks = Checks(ready=Check(every_seconds=0.05), live=Check(every_seconds=0.05, failures=1))
    service, answers = make_service(checks=checks), 0

    def alive_once() -> "asyncio.Future[str]":
        nonlocal answers
        answer, answers = unanswered(), answers + 1
        answer.set_result("" if answers == 1 else "it hangs")
        return answer

    engine = AnsweringEngine(alive_once)
    watching = observer(engine)
    async with asyncio.timeout(60):
        await watching.look(service, Owned(jobs=(running(service, 1),)))
        await engine.killed_again.wait()
    await ended(watching)
