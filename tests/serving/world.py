"""A service in a simulated world: replicas that start after a while, may be bad, are killed, and answer requests."""

from dataclasses import dataclass, field, replace
from random import Random

from gangline.lifecycle import advance, new_job
from gangline.lifecycle.events import (
    BackoffElapsed,
    CancelRequested,
    GangPlaced,
    GangStopped,
    ReplicaExited,
    ReplicaStarted,
)
from gangline.model import Job, JobSpec, RoleName, RoleSpec, Timestamp
from gangline.model.kinds.service import Counters, ReplicaRange, RolloutRules, Service, ServiceSpec, ServiceStatus
from gangline.model.record import Record, RecordId
from gangline.model.routing import LATENCY_BOUNDS, BackendState, ServiceRoute
from gangline.serving import EndedReplica, LoadSample, ReplicaSight, ServiceSight, number_of, plan, route_of
from gangline.testing.builders import make_placement

START_SECONDS = 2.0
GOOD, SLOW, ERRORS, CRASHES, NEVER_READY = "good", "slow", "errors", "crashes", "never-ready"


def make_service(**fields: object) -> Service:
    given = {"replicas": ReplicaRange(min=2), "rollout": RolloutRules(steps=(10, 50), pause_seconds=5), **fields}
    spec = ServiceSpec(name="digits", job=program(GOOD), **given)  # type: ignore[arg-type]
    return Record(id=RecordId("s1"), spec=spec, status=ServiceStatus(), created_at=Timestamp(0.0))


def program(how: str, number: int = 0) -> JobSpec:
    return JobSpec(name="job", roles=(RoleSpec(name=RoleName("server"), command=(how, str(number))),))


@dataclass
class World:
    """Time goes on by ``tick``; ``rate`` requests arrive in a second and take ``seconds`` each."""

    service: Service = field(default_factory=make_service)
    rate: float = 20.0
    seconds: float = 0.05
    now: float = 1000.0
    jobs: dict[int, Job] = field(default_factory=dict)
    ended: list[EndedReplica] = field(default_factory=list)
    counters: dict[int, Counters] = field(default_factory=dict)
    loads: list[LoadSample] = field(default_factory=list)
    active_at: float | None = None
    held: int = 0
    lost: int = 0
    route: ServiceRoute | None = None
    random: Random = field(default_factory=lambda: Random(7))
    dead_until: dict[int, float] = field(default_factory=dict)
    scales: list[int] = field(default_factory=list)
    full: bool = False
    """No machine is free: jobs wait in their queue."""

    def edit(self, **fields: object) -> None:
        self.service = replace(self.service, spec=replace(self.service.spec, **fields))  # type: ignore[arg-type]

    def how(self, job: Job) -> str:
        return job.spec.roles[0].command[0]

    def is_ready(self, number: int) -> bool:
        job = self.jobs.get(number)
        if job is None or job.finished or self.how(job) == NEVER_READY or self.now < self.dead_until.get(number, 0):
            return False
        started = job.replicas[0].started_at if job.replicas else None
        return started is not None and job.replicas[0].state == "running" and self.now - started >= START_SECONDS

    def sight(self) -> ServiceSight:
        open_to = {
            each.address
            for revision in (self.route.revisions if self.route else ())
            for each in revision.backends
            if each.state is BackendState.READY
        }
        return ServiceSight(
            replicas={
                number: ReplicaSight(
                    ready=self.is_ready(number), address=f"r{number}", idle=f"r{number}" not in open_to
                )
                for number in self.jobs
            },
            loads=tuple(self.loads),
            held=self.held,
            active_at=None if self.active_at is None else Timestamp(self.active_at),
            watched_since=Timestamp(1000.0),
            counters=self.counters,
            router="http://router",
        )

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
        now = Timestamp(self.now)
        self._live(now)
        self._answer(seconds, now)
        self.settle()

    def settle(self) -> None:
        """Plan until nothing more follows; more than a few rounds would be a plan that does not come to rest."""
        now = Timestamp(self.now)
        for _ in range(10):
            sight = self.sight()
            wanted = plan(self.service, self.jobs.values(), sight, now, ended=self.ended)
            before, self.service = self.service, replace(self.service, status=wanted.status)
            self.route = route_of(self.service, sight)
            for number, spec in wanted.start:
                self.jobs[number] = self._started(number, spec, now)
            for number in wanted.stop:
                self._end(number, now)
            if self.service == before and not wanted.start and not wanted.stop:
                self.scales.append(wanted.status.scale)
                return
        raise AssertionError("the plan does not come to rest")

    def _started(self, number: int, spec: JobSpec, now: Timestamp) -> Job:
        job = new_job(self.service.job_id(number), spec, now)
        return job if self.full else self._placed(job, now)

    def _placed(self, job: Job, now: Timestamp) -> Job:
        spec = job.spec
        job = advance(job, GangPlaced(job_id=job.id, at=now, placement=make_placement(spec))).job
        return advance(job, ReplicaStarted(job_id=job.id, at=now, attempt=1, replica=job.replicas[0].id)).job

    def _end(self, number: int, now: Timestamp) -> None:
        job = self.jobs.pop(number)
        job = advance(job, CancelRequested(job_id=job.id, at=now)).job
        job = advance(job, GangStopped(job_id=job.id, at=now, attempt=job.attempt)).job
        self.ended.append(EndedReplica(number_of(job), 0, job.phase, now, job.message))

    def _live(self, now: Timestamp) -> None:
        """Let programs crash, and those that did start again."""
        for number, before in self.jobs.items():
            if before.placeable:
                self.jobs[number] = before if self.full else self._placed(before, now)
                continue
            self.jobs[number] = job = advance(before, BackoffElapsed(job_id=before.id, at=now)).job
            status = job.replicas[0]
            if status.state == "pending":
                event = ReplicaStarted(
                    job_id=job.id, at=now, attempt=1, replica=status.id, incarnation=status.incarnation
                )
                self.jobs[number] = advance(job, event).job
            elif self.how(job) == CRASHES:
                self.kill(number)

    def kill(self, number: int) -> None:
        job = self.jobs[number]
        status = job.replicas[0]
        event = ReplicaExited(
            job_id=job.id,
            at=Timestamp(self.now),
            attempt=1,
            replica=status.id,
            incarnation=status.incarnation,
            exit_code=137,
        )
        self.jobs[number] = advance(job, event).job

    def _answer(self, seconds: float, now: Timestamp) -> None:
        """Share what arrives among revisions as the route says."""
        count = int(self.rate * seconds)
        weights = {each.name: each.weight for each in self.route.revisions} if self.route else {}
        if count:
            self.active_at = self.now
        self.held = 0
        total = sum(weights.values())
        for name, weight in weights.items():
            mine = round(count * weight / total) if total else 0
            ready = [number for number in self._backends(name) if self.is_ready(number)]
            if not ready:
                self.held += mine
                continue
            how = self.how(self.jobs[ready[0]])
            self._count(int(name), mine, how)
        self.loads.append(LoadSample(now, self.rate * self.seconds + self.held))
        window = self.service.spec.replicas.window_seconds
        self.loads = [each for each in self.loads if each.at >= now - window]

    def _backends(self, revision: str) -> list[int]:
        found = next((each for each in self.route.revisions if each.name == revision), None) if self.route else None
        backends = found.backends if found is not None else ()
        return [int(each.address[1:]) for each in backends if each.state is BackendState.READY]

    def _count(self, revision: int, answers: int, how: str) -> None:
        before = self.counters.get(revision, Counters(latency=(0,) * (len(LATENCY_BOUNDS) + 1)))
        took = 5.0 if how == SLOW else self.seconds
        bucket = next(index for index, bound in enumerate(LATENCY_BOUNDS) if took <= bound)
        latency = tuple(n + answers * (index == bucket) for index, n in enumerate(before.latency))
        errors = before.errors + (answers if how == ERRORS else 0)
        self.counters[revision] = Counters(requests=before.requests + answers, errors=errors, latency=latency)

    def ready(self) -> int:
        """How many replicas could answer now."""
        replicas = self.service.status.replicas
        return sum(self.is_ready(each.number) for each in replicas if each.draining_at is None)

    def share(self, revision: int) -> float:
        weights = {each.name: each.weight for each in self.route.revisions} if self.route else {}
        return weights.get(str(revision), 0.0) / (sum(weights.values()) or 1.0)
