"""Looks after services: checks their replicas, reads what the router counts, and tells it where requests go.

Nothing is decided here: ``gangline.serving`` says what follows from what is seen. What is seen is not kept: after a
restart a replica counts as ready if the router has it, until it was checked. Nobody waits for a check, which may take
as long as its service says: all services, and all other records, have their turn one after the other.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from gangline.engines.interface import Answering, Engine, FaultInjector
from gangline.kinds.inference_service import leaving_part, owned_by, parts_of
from gangline.kinds.kind import Owned
from gangline.model import Clock, GangId, Job, JobId, ReplicaId, ReplicaState, Timestamp
from gangline.model.kinds.service import Check, Checks, Counters, RevisionTraffic, ScaleMetric, Service
from gangline.model.record import Record, RecordId
from gangline.model.routing import (
    BackendState,
    HoldRules,
    RevisionStatistics,
    RouterStatistics,
    RoutingTable,
    ServiceRoute,
)
from gangline.serving import (
    Health,
    LoadSample,
    ReplicaSight,
    ServiceSight,
    number_of,
    route_name,
    route_of,
    traffic_of,
    yielding,
)

_log = logging.getLogger(__name__)
AnyRecord = Record[Any, Any]
_POLL_SECONDS = 1.0
_STARTING_SECONDS = 0.1
"""How often a replica is checked until it is ready for the first time."""
_FEWEST_SECONDS = 0.05
_PROBED = Checks(ready=Check(every_seconds=0.2, failures=1))
"""How often it is looked what others found, who count failures themselves."""
_ERRORS = "5xx"
_TRAFFIC_SECONDS = 15.0
"""What is shown of traffic is of so long."""


class Router(Protocol):
    """The process that sends requests to replicas, wherever it runs."""

    @property
    def address(self) -> str:
        """Where it answers, as the beginning of an address; empty before it was needed."""
        ...

    async def tell(self, table: RoutingTable) -> None:
        """Let it follow a table, and start it if it does not run; returns when the table is in force, or gives up."""
        ...

    async def known(self) -> RoutingTable:
        """Return the table that it was told last, also in an earlier life of this process."""
        ...

    async def statistics(self, wait_seconds: float) -> RouterStatistics | None:
        """Return what it counts; waits this long, but not while a request is held. None: it does not answer."""
        ...


@dataclass(slots=True)
class _Watched:
    """One start of a replica, and the task that checks it."""

    start: tuple[GangId, ReplicaId, int]
    checks: Checks
    health: Health = field(default_factory=Health)
    task: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class _Known:
    """What is remembered of one service between two looks."""

    name: str
    service: Service
    since: Timestamp
    watched: dict[int, _Watched] = field(default_factory=dict)
    loads: deque[LoadSample] = field(default_factory=deque)
    requests: int = 0
    active_at: Timestamp | None = None
    counted_at: Timestamp | None = None
    measured: tuple[Timestamp, dict[int, Counters]] | None = None
    """When traffic was last measured, and what had been counted then."""
    traffic: tuple[RevisionTraffic, ...] | None = None


_Key = tuple[RecordId, str]
"""A record and the name of the service that it is, or one of those that it is."""


class ServiceObserver:
    """Sees and shows services; there is one beside the record driver (``controller.records.Observer``)."""

    def __init__(self, *, engine: Engine, router: Router, clock: Clock, wake: Callable[[RecordId], None]) -> None:
        self._engine = engine
        self._router = router
        self._clock = clock
        self._wake = wake
        self._services: dict[_Key, _Known] = {}
        self._routes: dict[str, ServiceRoute] | None = None
        self._version = 0
        self._statistics: RouterStatistics | None = None
        self._needed = asyncio.Event()
        self._leaving: dict[_Key, Timestamp] = {}
        """Since when those that are being deleted get no more requests."""
        self._probed = isinstance(engine, Answering) and engine.probed

    async def run(self) -> None:
        """Read what the router counts, as long as there are services."""
        try:
            while True:
                await self._needed.wait()
                try:
                    await self._read_statistics()
                except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                    _log.exception("what the router counts cannot be read; trying again")
                    await asyncio.sleep(_POLL_SECONDS)
                await asyncio.sleep(_FEWEST_SECONDS)
                if not (self._services or self._leaving):
                    self._needed.clear()
        finally:
            for known in self._services.values():
                _end(known.watched.values())

    # What is seen ------------------------------------------------------------------------------------------

    async def look(self, record: AnyRecord, owned: Owned) -> ServiceSight | Mapping[str, ServiceSight]:
        """Return a service as it is now; for an InferenceService those that it is by name.

        One that it is no longer is among them for as long as it has requests to answer.
        """
        parts = parts_of(record)
        if parts[0] is record:
            return await self._look(record, owned)
        seen = {part.name: await self._look(part, owned_by(part, owned)) for part in parts}
        leaving = leaving_part(record)
        if leaving is not None and not await self._forget(leaving, named=False):
            seen[leaving.name] = ServiceSight()
        return seen

    async def _look(self, record: Service, owned: Owned) -> ServiceSight:
        """Look at one service."""
        now = self._clock.now()
        routes = await self._routes_known()
        known, trusted = self._services.get(_key(record)), frozenset[str]()
        if known is None:
            known = self._services[_key(record)] = _Known(route_name(record), record, now)
            trusted = _open_to(routes.get(known.name))
        known.service = record
        self._needed.set()
        jobs = {number_of(job): job for job in owned.jobs}
        self._follow(record.id, known, jobs, trusted)
        if record.spec.replicas.metric is ScaleMetric.REPORTED:
            self._note_reported(known, owned, now)
        statistics = self._of_revisions(known)
        return ServiceSight(
            replicas={number: self._replica(known, number, job, statistics) for number, job in jobs.items()},
            loads=tuple(known.loads),
            held=sum(each.held for each in statistics),
            active_at=known.active_at,
            watched_since=known.since,
            counters=_by_revision(statistics),
            traffic=known.traffic,
            router=self._router.address,
            problem=self._problem(record, known.name, routes),
        )

    def _problem(self, record: Service, name: str, routes: Mapping[str, ServiceRoute]) -> str:
        """What the router cannot do for a service, and what another service has already."""
        taken = yielding(route_of(record, ServiceSight()), self._others(record, routes))[1]
        failed = self._statistics.problems.get(name, "") if self._statistics is not None else ""
        return "; ".join(filter(None, (taken, failed)))

    def _others(self, record: AnyRecord, routes: Mapping[str, ServiceRoute]) -> list[ServiceRoute]:
        """The routes of other records; the parts of one hand host names on to each other."""
        mine = {known.name for (record_id, _), known in self._services.items() if record_id == record.id}
        return [route for name, route in routes.items() if name not in mine and name != route_name(record)]

    def _replica(self, known: _Known, number: int, job: Job, statistics: Iterable[RevisionStatistics]) -> ReplicaSight:
        watched, address = known.watched.get(number), self._address(job)
        under_way = {each.address: each.under_way for revision in statistics for each in revision.backends}
        open_to = _open_to((self._routes or {}).get(known.name))
        in_force = self._statistics is not None and self._statistics.version == self._version
        return ReplicaSight(
            ready=watched is not None and watched.health.ready and bool(address),
            address=address,
            idle=in_force and address not in open_to and not under_way.get(address),
            message=watched.health.message if watched is not None else "",
        )

    def _address(self, job: Job) -> str:
        lead = ReplicaId(job.spec.lead_role, 0)
        return self._engine.address_of(job.gang_id, lead) if isinstance(self._engine, Answering) else ""

    def _follow(self, record_id: RecordId, known: _Known, jobs: dict[int, Job], trusted: Collection[str]) -> None:
        """Check what runs, each start of a replica anew, and nothing else; ``trusted`` addresses were ready before."""
        starts = {number: start for number, job in jobs.items() if (start := lead_start(job)) is not None}
        for number, watched in list(known.watched.items()):
            if starts.get(number) != watched.start:
                _end([known.watched.pop(number)])
        for number, start in starts.items():
            if number not in known.watched:
                checks = _PROBED if self._probed else known.service.spec.health
                was_ready = self._address(jobs[number]) in trusted
                health = Health(started=was_ready, ready=was_ready)
                watched = known.watched[number] = _Watched(start, checks, health)
                watched.task = asyncio.create_task(self._check(record_id, watched), name=f"checks of {start[0]}")

    async def _check(self, record_id: RecordId, watched: _Watched) -> None:
        """Check one start of a replica for as long as it runs."""
        checks, next_live = watched.checks, 0.0
        while True:
            before = watched.health
            try:
                if checks.start is None or watched.health.started or await self._holds(watched, checks.start):
                    refusal = await self._refusal(watched, checks.ready)
                    watched.health = watched.health.after_ready(checks, refusal)
                    if checks.live is not None and self._clock.now() >= next_live:
                        next_live = self._clock.now() + checks.live.every_seconds
                        watched.health = watched.health.after_live(await self._refusal(watched, checks.live))
                if watched.health.must_restart(checks) and isinstance(self._engine, FaultInjector):
                    _log.warning("%s fails its liveness check and is killed: %s", *watched.start[:1], before.message)
                    await self._engine.kill(*watched.start[:2])
            except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                _log.exception("a replica cannot be checked: %s", watched.start[0])
            if before.ready != watched.health.ready:
                self._wake(record_id)
            await asyncio.sleep(checks.ready.every_seconds if watched.health.started else _STARTING_SECONDS)

    async def _holds(self, watched: _Watched, check: object) -> bool:
        refusal = await self._refusal(watched, check)
        watched.health = replace(watched.health, started=not refusal, message=refusal)
        return not refusal

    async def _refusal(self, watched: _Watched, check: object) -> str:
        if not isinstance(self._engine, Answering):
            return "this engine does not check replicas"
        return await self._engine.check(watched.start[0], watched.start[1], check)  # type: ignore[arg-type]

    # What the router counts --------------------------------------------------------------------------------

    async def _read_statistics(self) -> None:
        found = await self._router.statistics(_POLL_SECONDS)
        if found is None:
            await asyncio.sleep(_FEWEST_SECONDS)
            return
        now, before = self._clock.now(), self._statistics
        self._statistics = found
        cpu = await self._cpu() if self._scales_by_cpu() else {}
        for (record_id, _), known in self._services.items():
            self._note_load(known, cpu, now)
            statistics = self._of_revisions(known)
            if _measured_anew(known, _by_revision(statistics), now):
                self._wake(record_id)
            if any(each.held for each in statistics) and not _is_ready(known):
                self._wake(record_id)
        if before is None or before.version != found.version or before.problems != found.problems:
            for record_id, _ in self._services:
                self._wake(record_id)

    def _of_revisions(self, known: _Known) -> tuple[RevisionStatistics, ...]:
        found = self._statistics.revisions if self._statistics is not None else ()
        return tuple(each for each in found if each.service == known.name)

    def _note_load(self, known: _Known, cpu: dict[JobId, int], now: Timestamp) -> None:
        statistics, rules = self._of_revisions(known), known.service.spec.replicas
        requests = sum(each.requests for each in statistics)
        at_once = sum(each.under_way + each.held for each in statistics)
        new, known.requests = max(0, requests - known.requests), requests
        if at_once or new:
            known.active_at = now
        past, known.counted_at = known.counted_at, now
        match rules.metric:
            case ScaleMetric.REQUESTS:
                load = float(at_once)
            case ScaleMetric.RATE:
                load = new / (now - past) if past is not None and now > past else 0.0
            case ScaleMetric.CPU:
                load = _percent(known, cpu)
            case ScaleMetric.REPORTED:
                return
        self._add_load(known, LoadSample(now, load))

    def _note_reported(self, known: _Known, owned: Owned, now: Timestamp) -> None:
        name = known.service.spec.replicas.reported
        self._add_load(known, LoadSample(now, sum(each.value for each in owned.metrics if each.name == name)))

    def _add_load(self, known: _Known, sample: LoadSample) -> None:
        """Keep the samples of the window, and one from before it: otherwise a short window would never look whole."""
        known.loads.append(sample)
        while len(known.loads) > 1 and known.loads[1].at <= sample.at - known.service.spec.replicas.window_seconds:
            known.loads.popleft()

    def _scales_by_cpu(self) -> bool:
        return any(each.service.spec.replicas.metric is ScaleMetric.CPU for each in self._services.values())

    async def _cpu(self) -> dict[JobId, int]:
        used: dict[JobId, int] = {}
        for each in (await self._engine.usage()).replicas:
            used[each.job_id] = used.get(each.job_id, 0) + each.cpu_millis
        return used

    # What is shown -----------------------------------------------------------------------------------------

    async def show(self, record: AnyRecord, owned: Owned) -> None:
        """Tell the router where requests for a service go now."""
        for part in parts_of(record):
            sight = owned_by(part, owned).sight
            if isinstance(sight, ServiceSight) and part.status.current:
                others = self._others(part, await self._routes_known())
                await self._tell(route_name(part), yielding(route_of(part, sight), others)[0])

    async def forget(self, record: AnyRecord) -> bool:
        """Send no more requests to a service; return whether it has answered those that it had, or had its time."""
        leaving = leaving_part(record)
        # What asks another one goes first: until it has answered, it needs that.
        for part in (*([leaving] if leaving is not None else []), *reversed(parts_of(record))):
            if not await self._forget(part):
                return False
        return True

    async def _forget(self, record: Service, *, named: bool = True) -> bool:
        """Let a service end. ``named``: it keeps its host names until then; otherwise another one has them."""
        name, now, key = route_name(record), self._clock.now(), _key(record)
        route = (await self._routes_known()).get(name)
        since = self._leaving.setdefault(key, now)
        if route is not None and now - since < record.spec.access.drain_seconds:
            await self._tell(name, _drained(route if named else replace(route, hosts=())))
            self._needed.set()
            if not self._is_idle(name):
                return False
        if known := self._services.pop(key, None):
            _end(known.watched.values())
        self._leaving.pop(key, None)
        await self._tell(name, None)
        return True

    def _is_idle(self, name: str) -> bool:
        """Whether it is known that no request for a service is under way."""
        found = self._statistics
        if found is None or found.version != self._version:
            return False
        return not any(each.under_way + each.held for each in found.revisions if each.service == name)

    async def _routes_known(self) -> dict[str, ServiceRoute]:
        if self._routes is None:
            table = await self._router.known()
            self._version = max(self._version, table.version)
            self._routes = {each.name: each for each in table.services}
            if self._routes:
                await self._router.tell(table)
        return self._routes

    async def _tell(self, name: str, route: ServiceRoute | None) -> None:
        routes = await self._routes_known()
        if routes.get(name) == route:
            return
        if route is None:
            del routes[name]
        else:
            routes[name] = route
        self._version += 1
        await self._router.tell(
            RoutingTable(version=self._version, services=tuple(routes[each] for each in sorted(routes)))
        )


def _key(service: Service) -> _Key:
    return service.id, service.name


def _open_to(route: ServiceRoute | None) -> frozenset[str]:
    """The addresses of replicas that the router may send requests to."""
    revisions = route.revisions if route is not None else ()
    return frozenset(
        each.address for revision in revisions for each in revision.backends if each.state is BackendState.READY
    )


def _drained(route: ServiceRoute) -> ServiceRoute:
    """Let a service end what it has and begin nothing more."""
    revisions = tuple(
        replace(each, backends=tuple(replace(backend, state=BackendState.DRAINING) for backend in each.backends))
        for each in route.revisions
    )
    return replace(route, revisions=revisions, hold=HoldRules(seconds=0))


def lead_start(job: Job) -> tuple[GangId, ReplicaId, int] | None:
    """Which start of its lead replica a job is at; None while that does not run."""
    lead = job.replica(ReplicaId(job.spec.lead_role, 0))
    if job.finished or lead is None or lead.state is not ReplicaState.RUNNING:
        return None
    return job.gang_id, lead.id, lead.incarnation


def _end(watched: Iterable[_Watched]) -> None:
    for each in watched:
        if each.task is not None:
            each.task.cancel()


def _is_ready(known: _Known) -> bool:
    return any(each.health.ready for each in known.watched.values())


def _counters(statistics: RevisionStatistics) -> Counters:
    return Counters(
        requests=statistics.requests,
        errors=statistics.answers.get(_ERRORS, 0),
        latency=statistics.latency.counts,
    )


def _by_revision(statistics: Iterable[RevisionStatistics]) -> dict[int, Counters]:
    return {int(each.revision): _counters(each) for each in statistics if each.revision.isdecimal()}


def _measured_anew(known: _Known, counters: dict[int, Counters], now: Timestamp) -> bool:
    """Measure what a service is asked, now and then: its record is written each time that this changes."""
    if known.measured is None:
        known.measured = now, counters
        return False
    at, before = known.measured
    if now - at < _TRAFFIC_SECONDS:
        return False
    known.measured, last = (now, counters), known.traffic
    known.traffic = traffic_of(counters, before, now - at)
    return known.traffic != last


def _percent(known: _Known, cpu: dict[JobId, int]) -> float:
    """The CPU that replicas use, in per cent of what one asked for, added up."""
    revision = known.service.status.revision(known.service.status.current)
    asked = sum(role.resources.cpu_millis * role.replicas for role in revision.job.roles) if revision else 0
    used = sum(cpu.get(known.service.job_id(number), 0) for number in known.watched)
    return 100.0 * used / asked if asked else 0.0
