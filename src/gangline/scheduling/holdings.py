"""Who holds what, and who waits: jobs reduced to the records that the scheduler works with.

Records, free amounts and sums are carried from one snapshot to the next, so a cycle pays only for jobs that changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from gangline.model import ACTIVE_PHASES, Job, JobId, Phase, QueueName, ReplicaState, RoleName, Timestamp
from gangline.scheduling.draft import Draft, Need
from gangline.scheduling.measure import Measure
from gangline.scheduling.shapes import Demand, Shape, demand_of
from gangline.scheduling.table import Ints, NodeTable

HOLDING_STATES = frozenset({ReplicaState.PENDING, ReplicaState.RUNNING, ReplicaState.BACKING_OFF})
"""A replica in these occupies its share of a node; one that ended or is lost has given it back."""

RESIZABLE_PHASES = frozenset({Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING})
"""A gang that is storing its results needs nobody new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A gang that waits for machines. ``promise`` is the run time it has committed itself to, if any."""

    job: Job
    demand: Demand
    promise: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRole:
    """Replicas of one role that occupy nodes: replica ``indexes[i]`` sits on ``rows[i]`` (in GPU ``slots[i]``)."""

    role: RoleName
    shape: Shape
    indexes: tuple[int, ...]
    rows: tuple[int, ...]
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A gang that occupies machines.

    ``releasing`` says that it is on its way out, ``resizable`` that it may grow and shrink now. ``launched_at`` is
    when this attempt got its machines, ``amounts`` what it uses of its queue.
    """

    job: Job
    demand: Demand
    roles: tuple[HeldRole, ...]
    releasing: bool
    resizable: bool
    launched_at: Timestamp
    amounts: Ints = field(compare=False)

    def role(self, name: RoleName) -> HeldRole:
        """The replicas of one role."""
        return next(role for role in self.roles if role.role == name)

    def present(self, name: RoleName) -> frozenset[int]:
        """Indexes of a role that are taken. Only a lost replica leaves its index free: one that failed would fail again."""
        return frozenset(
            status.id.index
            for status in self.job.replicas
            if status.id.role == name and status.state is not ReplicaState.LOST
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Every gang that matters, by job; what is free besides; and what every queue uses."""

    draft: Draft
    measure: Measure
    held: Mapping[JobId, Held] = field(default_factory=dict)
    waiting: Mapping[JobId, Waiting] = field(default_factory=dict)
    used: dict[QueueName, Ints] = field(default_factory=dict)
    demands: dict[Demand, Demand] = field(default_factory=dict)
    """Equal demands are one object, so that the cycle may compare them by identity."""
    needs: dict[Shape, Need] = field(default_factory=dict)

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
    """Sort jobs into those that hold and those that wait, reusing every record whose job is unchanged."""
    old = previous
    if old is None or old.draft.table is not table:
        old = Holdings(draft=Draft.empty(table), measure=Measure(table))
    held: dict[JobId, Held] = {}
    waiting: dict[JobId, Waiting] = {}
    changed: list[Job] = []
    for job in jobs:
        if job.holding:
            known = old.held.get(job.id)
            if known is not None and known.job is job:
                held[job.id] = known
            else:
                changed.append(job)
        elif job.placeable:
            waits = old.waiting.get(job.id)
            waiting[job.id] = waits if waits is not None and waits.job is job else _wait(job, old)
    gone = [gang for job_id, gang in old.held.items() if job_id not in held]
    if not gone and not changed:
        return Holdings(
            draft=old.draft,
            measure=old.measure,
            held=held,
            waiting=waiting,
            used=old.used,
            demands=old.demands,
            needs=old.needs,
        )
    draft = old.draft.copy()
    used = dict(old.used)
    old.release(draft, [role for gang in gone for role in gang.roles])
    for gang in gone:
        used[gang.job.spec.queue] = used[gang.job.spec.queue] - gang.amounts
    for job in changed:
        gang = held[job.id] = _hold(old, draft, job)
        used[job.spec.queue] = used.get(job.spec.queue, 0) + gang.amounts
    draft.commit()
    return Holdings(
        draft=draft,
        measure=old.measure,
        held=held,
        waiting=waiting,
        used=used,
        demands=old.demands,
        needs=old.needs,
    )


def _demand(job: Job, old: Holdings) -> Demand:
    for record in (old.waiting.get(job.id), old.held.get(job.id)):
        if record is not None and record.job.spec is job.spec and record.job.scale == job.scale:
            return record.demand
    demand = demand_of(job)
    return old.demands.setdefault(demand, demand)


def _wait(job: Job, old: Holdings) -> Waiting:
    policy = job.spec.policy
    promises = [seconds for seconds in (policy.expected_seconds, policy.deadline_seconds) if seconds is not None]
    return Waiting(job=job, demand=_demand(job, old), promise=min(promises, default=None))


def _hold(holdings: Holdings, draft: Draft, job: Job) -> Held:
    demand = _demand(job, holdings)
    rows = draft.table.rows
    by_role: dict[RoleName, list[tuple[int, int]]] = {role.role: [] for role in demand.roles}
    for status in job.replicas:
        # A replica on a node that no longer exists occupies nothing.
        if status.state in HOLDING_STATES and status.node in rows:
            by_role[status.id.role].append((status.id.index, rows[status.node]))
    roles = []
    amounts = np.zeros(len(holdings.measure.names), dtype=np.int64)
    for role in demand.roles:
        pairs = sorted(by_role[role.role])
        need = holdings.need(role.shape)
        where = tuple(row for _, row in pairs)
        slots = draft.take_each(need, where)
        amounts += holdings.measure.of_rows(need.row, where)
        indexes = tuple(index for index, _ in pairs)
        roles.append(HeldRole(role=role.role, shape=role.shape, indexes=indexes, rows=where, slots=slots))
    return Held(
        job=job,
        demand=demand,
        roles=tuple(roles),
        releasing=job.phase not in ACTIVE_PHASES,
        resizable=job.phase in RESIZABLE_PHASES and any(role.elastic for role in job.spec.roles),
        launched_at=_launched_at(job),
        amounts=amounts,
    )


def _launched_at(job: Job) -> Timestamp:
    for entry in reversed(job.history):
        if entry.phase is Phase.STARTING:
            return entry.at
    return job.started_at or job.created_at
