"""Who holds what, and who waits: jobs reduced to the records that the scheduler works with.

Records and free amounts are carried from one snapshot to the next, so a cycle pays only for the jobs that changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from gangline.model import ACTIVE_PHASES, Job, JobId, ReplicaState, RoleName
from gangline.scheduling.draft import Draft, Need
from gangline.scheduling.shapes import Demand, Shape, demand_of
from gangline.scheduling.table import NodeTable

HOLDING_STATES = frozenset({ReplicaState.PENDING, ReplicaState.RUNNING, ReplicaState.BACKING_OFF})
"""A replica in these occupies its share of a node; one that ended or is lost has given it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A gang that waits for machines."""

    job: Job
    demand: Demand


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
    """A gang that occupies machines. ``releasing`` says that it is on its way out."""

    job: Job
    demand: Demand
    roles: tuple[HeldRole, ...]
    releasing: bool

    def role(self, name: RoleName) -> HeldRole:
        """The replicas of one role."""
        return next(role for role in self.roles if role.role == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Every gang that matters, by job, and what is free besides."""

    draft: Draft
    held: Mapping[JobId, Held] = field(default_factory=dict)
    waiting: Mapping[JobId, Waiting] = field(default_factory=dict)
    demands: dict[Demand, Demand] = field(default_factory=dict)
    """Equal demands are one object, so that the cycle may compare them by identity."""
    needs: dict[Shape, Need] = field(default_factory=dict)

    def need(self, shape: Shape) -> Need:
        """What a running replica occupies; where it may run was settled when it was placed."""
        if shape not in self.needs:
            table = self.draft.table
            self.needs[shape] = Need.of(table, shape, np.ones(len(table), dtype=np.bool_))
        return self.needs[shape]

    def release(self, draft: Draft, gang: Held) -> None:
        """Give back everything a gang occupies."""
        for role in gang.roles:
            draft.release(self.need(role.shape), role.rows, role.slots)


def gather(table: NodeTable, jobs: Iterable[Job], previous: Holdings | None) -> Holdings:
    """Sort jobs into those that hold and those that wait, reusing every record whose job is unchanged."""
    reusable = previous is not None and previous.draft.table is table
    old = previous if previous is not None and reusable else Holdings(draft=Draft.empty(table))
    draft = old.draft.copy()
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
            unchanged = waits is not None and waits.job is job
            waiting[job.id] = waits if waits is not None and unchanged else Waiting(job=job, demand=_demand(job, old))
    for job_id, gang in old.held.items():
        if job_id not in held:
            old.release(draft, gang)
    for job in changed:
        held[job.id] = _hold(old, draft, job, _demand(job, old))
    draft.commit()
    return Holdings(draft=draft, held=held, waiting=waiting, demands=old.demands, needs=old.needs)


def _demand(job: Job, old: Holdings) -> Demand:
    for record in (old.waiting.get(job.id), old.held.get(job.id)):
        if record is not None and record.job.spec is job.spec and record.job.scale == job.scale:
            return record.demand
    demand = demand_of(job)
    return old.demands.setdefault(demand, demand)


def _hold(holdings: Holdings, draft: Draft, job: Job, demand: Demand) -> Held:
    rows = draft.table.rows
    by_role: dict[RoleName, list[tuple[int, int]]] = {role.role: [] for role in demand.roles}
    for status in job.replicas:
        # A replica on a node that no longer exists occupies nothing.
        if status.state in HOLDING_STATES and status.node in rows:
            by_role[status.id.role].append((status.id.index, rows[status.node]))
    roles = []
    for role in demand.roles:
        pairs = sorted(by_role[role.role])
        need = holdings.need(role.shape)
        slots = [slot for _, row in pairs for slot in draft.take(need, row)]
        roles.append(
            HeldRole(
                role=role.role,
                shape=role.shape,
                indexes=tuple(index for index, _ in pairs),
                rows=tuple(row for _, row in pairs),
                slots=tuple(slots),
            )
        )
    return Held(job=job, demand=demand, roles=tuple(roles), releasing=job.phase not in ACTIVE_PHASES)
