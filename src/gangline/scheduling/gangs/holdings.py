"""Who holds what, and who waits: jobs reduced to the records that the scheduler works with.

Records, free amounts and sums are carried from one snapshot to the next, so a cycle pays only for jobs that changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from gangline.model import ACTIVE_PHASES, Job, JobId, Phase, QueueName, ReplicaId, ReplicaState, RoleName, Timestamp
from gangline.scheduling.demand.gang_affinity import role_name
from gangline.scheduling.demand.shapes import Demand, Shape, demand_of
from gangline.scheduling.gangs.terminating import is_terminating, owner_of
from gangline.scheduling.nodes.draft import Draft, Need
from gangline.scheduling.nodes.measure import Measure
from gangline.scheduling.nodes.table import Ints, NodeTable

HOLDING_STATES = frozenset({ReplicaState.PENDING, ReplicaState.RUNNING, ReplicaState.BACKING_OFF})
"""A replica in these occupies its share of a node; one that ended or is lost has given it back."""

RESIZABLE_PHASES = frozenset({Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING})
"""A gang that is storing its results needs nobody new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A gang that waits for machines. ``promise`` is the run time it has committed itself to, if any.

    ``age`` orders gangs that nothing else does: by submission, then by id.
    """

    job: Job
    demand: Demand
    age: tuple[Timestamp, JobId]
    promise: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRole:
    """Replicas of one role, or group of a role, that occupy nodes.

    Replica ``indexes[i]`` sits on ``rows[i]`` (in GPU ``slots[i]``).
    """

    role: RoleName
    shape: Shape
    indexes: tuple[int, ...]
    rows: tuple[int, ...]
    slots: tuple[int, ...] = ()

    @property
    def replicas(self) -> tuple[ReplicaId, ...]:
        """What the job calls them."""
        return tuple(ReplicaId(role_name(self.role), index) for index in self.indexes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A gang that occupies machines.

    ``releasing`` says that it is on its way out, ``resizable`` that it may grow and shrink now. ``launched_at`` is
    when this attempt got its machines, ``amounts`` what it uses of its queue, ``least`` what of that it cannot live
    without.
    """

    job: Job
    demand: Demand
    roles: tuple[HeldRole, ...]
    releasing: bool
    resizable: bool
    launched_at: Timestamp
    amounts: Ints = field(compare=False)
    least: Ints = field(compare=False)

    @property
    def owner(self) -> JobId:
        """The job that people know it by."""
        return owner_of(self.job.id)

    def role(self, name: RoleName) -> HeldRole:
        """The replicas of one role."""
        return next(role for role in self.roles if role.role == name)

    def present(self, name: RoleName) -> frozenset[int]:
        """Indexes of a role that are taken. Only a lost replica frees its index: one that failed would fail again."""
        return frozenset(
            status.id.index
            for status in self.job.replicas
            if status.state is not ReplicaState.LOST and self.demand.group_of(status.id) == name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Every gang that matters, by job; what is free besides; and what every queue uses."""

    draft: Draft
    measure: Measure
    held: Mapping[JobId, Held] = field(default_factory=dict)
    waiting: Mapping[JobId, Waiting] = field(default_factory=dict)
    known: Mapping[int, Job] = field(default_factory=dict)
    """Every job that was seen, by the identity of its object."""
    releasing: tuple[Held, ...] = ()
    resizable: tuple[Held, ...] = ()
    used: Mapping[QueueName, Ints] = field(default_factory=dict)
    least: Mapping[QueueName, Ints] = field(default_factory=dict)
    """The part of what is used that the gangs cannot live without."""
    demands: dict[Demand, Demand] = field(default_factory=dict)
    """Equal demands are one object, so that the cycle may compare them by identity."""
    needs: dict[Shape, Need] = field(default_factory=dict)
    standings: dict[Any, dict[JobId, Any]] = field(default_factory=dict)
    """What orders of jobs made of gangs that run (see ``preemption.standing``), by order."""

    def need(self, shape: Shape) -> Need:
        """What a running replica occupies; where it may run was settled when it was placed."""
        known = self.needs.get(shape)
        if known is None:
            table = self.draft.table
            known = self.needs[shape] = Need.of(table, shape, np.ones(len(table), dtype=np.bool_))
        return known

    def release(self, draft: Draft, roles: Iterable[HeldRole]) -> None:
        """Give back everything these replicas occupy; all that share no GPU in one step."""
        rows: list[int] = []
        kinds: list[int] = []
        vectors: dict[int, tuple[int, Ints]] = {}
        for role in roles:
            need = self.need(role.shape)
            if need.part:
                draft.release(need, role.rows, role.slots)
            else:
                kind, _ = vectors.setdefault(id(need), (len(vectors), need.row))
                rows.extend(role.rows)
                kinds.extend([kind] * len(role.rows))
        if rows:
            table = np.array([vector for _, vector in vectors.values()])
            draft.release_many(np.array(rows, dtype=np.int64), table[kinds])


def gather(table: NodeTable, jobs: Iterable[Job], previous: Holdings | None) -> Holdings:
    """Sort jobs into those that hold and those that wait, reusing every record whose job is the same object."""
    old = previous
    if old is None or old.draft.table is not table:
        old = Holdings(draft=Draft.empty(table), measure=Measure(table))
    members = list(jobs)
    # Jobs that are known are kept alive, so that an object's id stands for it; comparing ids costs next to nothing.
    present = dict(zip(map(id, members), members, strict=True))
    gone = [old.known[number].id for number in old.known.keys() - present.keys()]
    # In the order of submission, which is close to the order of the line, so that sorting them there costs little.
    fresh = sorted((present[number] for number in present.keys() - old.known.keys()), key=age_of)
    if not gone and not fresh:
        return old
    update = _Update(old, present)
    for job_id in gone:
        update.remove(job_id)
    for job in fresh:
        update.add(job)
    return update.done()


def age_of(job: Job) -> tuple[Timestamp, JobId]:
    """Who came first: the time of submission, then the id."""
    return (job.created_at, job.id)


class _Update:
    """The next holdings in the making."""

    def __init__(self, old: Holdings, known: Mapping[int, Job]) -> None:
        self._old = old
        self._known = known
        self._held = dict(old.held)
        self._waiting = dict(old.waiting)
        self._used = dict(old.used)
        self._least = dict(old.least)
        self._draft = old.draft
        self._removed: dict[JobId, Held] = {}
        self._starting: list[Held] = []

    def remove(self, job_id: JobId) -> None:
        """A job is gone, or is no longer what it was."""
        self._waiting.pop(job_id, None)
        gang = self._held.pop(job_id, None)
        if gang is not None:
            self._removed[job_id] = gang

    def add(self, job: Job) -> None:
        """A job is new, or has become something else."""
        if not job.holding:
            if job.placeable:
                self._waiting[job.id] = _wait(job, self._old)
            return
        before = self._removed.get(job.id)
        if before is not None and _occupies(job) == _occupies(before.job) and job.scale == before.job.scale:
            del self._removed[job.id]
            self._held[job.id] = _moved_on(before, job, _demand(job, self._old))
        else:
            gang = Held(**_facts(job), demand=_demand(job, self._old), roles=(), amounts=NOTHING, least=NOTHING)
            self._held[job.id] = gang
            self._starting.append(gang)

    def done(self) -> Holdings:
        """Settle what was taken and given back, all of it in one step."""
        if self._removed or self._starting:
            self._draft = self._old.draft.copy()
            self._old.release(self._draft, [role for gang in self._removed.values() for role in gang.roles])
            for gang in self._removed.values():
                self._book(gang, -1)
            # Those whose shared GPUs are on record come first, so that nobody else is thought to be there.
            for gang in sorted(self._starting, key=_is_guess):
                placed = self._held[gang.job.id] = _hold(self._old, self._draft, gang)
                self._book(placed, 1)
            self._draft.commit()
        return Holdings(
            draft=self._draft,
            measure=self._old.measure,
            held=self._held,
            waiting=self._waiting,
            known=self._known,
            releasing=tuple(gang for gang in self._held.values() if gang.releasing),
            resizable=tuple(gang for gang in self._held.values() if gang.resizable),
            used=self._used,
            least=self._least,
            demands=self._demands(),
            needs=self._old.needs,
            standings=self._standings(),
        )

    def _demands(self) -> dict[Demand, Demand]:
        """The demands that are shared; when most are of jobs that are gone, those of the jobs that are here."""
        gangs: list[Held | Waiting] = [*self._held.values(), *self._waiting.values()]
        if len(self._old.demands) <= DEMANDS_KEPT + 2 * len(gangs):
            return self._old.demands
        return {gang.demand: gang.demand for gang in gangs}

    def _standings(self) -> dict[Any, dict[JobId, Any]]:
        """What is known of gangs, unless most of them are gone."""
        known = sum(map(len, self._old.standings.values()))
        return self._old.standings if known <= DEMANDS_KEPT + 2 * len(self._held) else {}

    def _book(self, gang: Held, sign: int) -> None:
        queue = gang.job.spec.queue
        self._used[queue] = self._used.get(queue, 0) + sign * gang.amounts
        self._least[queue] = self._least.get(queue, 0) + sign * gang.least


DEMANDS_KEPT = 1000
"""Demands of jobs that are gone which cost nothing worth counting."""

NOTHING: Ints = np.zeros(0, dtype=np.int64)
"""The amounts of a gang that has not been counted yet."""


def _occupies(job: Job) -> tuple[object, ...]:
    return tuple((status.id, status.node) for status in job.replicas if status.state in HOLDING_STATES)


def _is_guess(gang: Held) -> bool:
    """Whether nobody knows which GPU some replica shares: its record is from before that was kept."""
    parts = {role.name for role in gang.demand.roles if role.shape.gpu_part or role.shape.shares_by_memory}
    return any(status.id.role in parts and status.gpu_slot is None for status in gang.job.replicas)


def _facts(job: Job) -> dict[str, Any]:
    """What a record takes from its job alone."""
    phase = job.phase
    return {
        "job": job,
        "releasing": phase not in ACTIVE_PHASES,
        "resizable": phase in RESIZABLE_PHASES and any(role.elastic for role in job.spec.roles),
        "launched_at": launched_at(job),
    }


def _moved_on(gang: Held, job: Job, demand: Demand) -> Held:
    """The same gang in the same place, in another phase; what it would grow by may be something else now."""
    return Held(**_facts(job), demand=demand, roles=gang.roles, amounts=gang.amounts, least=gang.least)


def _demand(job: Job, old: Holdings) -> Demand:
    for record in (old.waiting.get(job.id), old.held.get(job.id)):
        if record is not None and record.job.spec is job.spec and record.job.scale == job.scale:
            return record.demand
    demand = demand_of(job)
    return old.demands.setdefault(demand, demand)


def _wait(job: Job, old: Holdings) -> Waiting:
    policy = job.spec.policy
    promises = [seconds for seconds in (policy.expected_seconds, policy.deadline_seconds) if seconds is not None]
    return Waiting(job=job, demand=_demand(job, old), age=age_of(job), promise=min(promises, default=None))


def _hold(holdings: Holdings, draft: Draft, gang: Held) -> Held:
    """Take what a gang occupies, and count it."""
    rows = draft.table.rows
    by_role: dict[RoleName, list[tuple[int, int, int | None]]] = {role.role: [] for role in gang.demand.roles}
    group_of = gang.demand.group_of
    for status in gang.job.replicas:
        # A replica on a node that no longer exists occupies nothing.
        if status.state in HOLDING_STATES and status.node in rows:
            by_role[group_of(status.id)].append((status.id.index, rows[status.node], status.gpu_slot))
    roles = []
    amounts = np.zeros(len(holdings.measure.names), dtype=np.int64)
    surplus = np.zeros_like(amounts)
    for role in gang.demand.roles:
        members = sorted(by_role[role.role], key=itemgetter(0))
        need = holdings.need(role.shape)
        where = tuple(row for _, row, _ in members)
        slots = draft.take_each(need, where, [slot for _, _, slot in members])
        if not is_terminating(gang.job.id):
            amounts += holdings.measure.of_rows(need.row, where)
            if len(where) > role.least:
                surplus += holdings.measure.of_rows(need.row, where[role.least :])
        indexes = tuple(index for index, _, _ in members)
        roles.append(HeldRole(role=role.role, shape=role.shape, indexes=indexes, rows=where, slots=slots))
    return Held(**_facts(gang.job), demand=gang.demand, roles=tuple(roles), amounts=amounts, least=amounts - surplus)


def launched_at(job: Job) -> Timestamp:
    """When the present attempt got its machines."""
    for entry in reversed(job.history):
        if entry.phase is Phase.STARTING:
            return entry.at
    return job.started_at or job.created_at
