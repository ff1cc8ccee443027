"""Nodes, queues and jobs for scheduling tests, in as few words as the scenario needs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gangline.model import (
    Job,
    JobId,
    JobSpec,
    NamedAmounts,
    Node,
    NodeName,
    Phase,
    PhaseEntry,
    PlacementRule,
    Policy,
    Prefer,
    Queue,
    QueueName,
    ReplicaId,
    ReplicaState,
    ReplicaStatus,
    Resources,
    RoleName,
    RoleSpec,
    Taint,
    Tenant,
    Timestamp,
    Within,
)
from gangline.scheduling import Constraint, CycleMemory, Decision, Policies, decide, take_snapshot

NOW = Timestamp(10_000.0)

AT_ONCE = Policies(reserve_after_seconds=0.0)
"""The default rules, but the first in line has its place kept at once: nobody in these tests waits for hours."""


def node(
    name: str, *, gpus: float = 8, cpus: float = 64, memory: int = 65_536, kind: str | None = "a100", **more: Any
) -> Node:
    """One node; ``more`` goes to Node as it is."""
    extended = more.pop("extended", {})
    return Node(
        name=NodeName(name),
        capacity=_amount(gpus=gpus, cpus=cpus, memory=memory, extended=extended),
        gpu_type=kind if gpus else None,
        **more,
    )


def nodes(count: int, *, racks: int = 0, prefix: str = "n", **more: Any) -> list[Node]:
    """``count`` equal nodes n0, n1, ...; with ``racks``, that many nodes share each rack."""
    return [node(f"{prefix}{i}", topology={"rack": f"r{i // racks}"} if racks else {}, **more) for i in range(count)]


def role(
    replicas: int = 1, *, name: str = "worker", gpus: float = 1, cpus: float = 1, memory: int = 1, **more: Any
) -> RoleSpec:
    """One role; ``minimum`` and ``maximum`` make it elastic."""
    extended = more.pop("extended", {})
    return RoleSpec(
        name=RoleName(name),
        replicas=replicas,
        command=("train",),
        resources=_amount(gpus=gpus, cpus=cpus, memory=memory, extended=extended),
        **more,
    )


def job(
    name: str,
    *roles: RoleSpec,
    queue: str = "default",
    priority: int = 50,
    age: float = 1.0,
    prefer: Prefer | None = None,
    within: str | Sequence[Within] | None = None,
    required: bool = True,
    kinds: Sequence[str] = (),
    selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Any] = (),
    apart: str | None = None,
    near: Mapping[str, str] | None = None,
    away: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    scale: Mapping[str, int] | None = None,
    retry_at: float | None = None,
    phase: Phase = Phase.QUEUED,
    **policy: Any,
) -> Job:
    """A job that waits, submitted ``age`` seconds before NOW."""
    levels = (Within(within, required),) if isinstance(within, str) else tuple(within or ())
    spec = JobSpec(
        name=name,
        roles=roles or (role(),),
        queue=QueueName(queue),
        priority=priority,
        labels=dict(labels or {}),
        policy=Policy(**policy),
        placement=PlacementRule(
            prefer=prefer,
            within=levels[0].level if levels else None,
            within_required=levels[0].required if levels else True,
            nested=levels[1:],
            gpu_types=tuple(kinds),
            node_selector=dict(selector or {}),
            tolerations=tuple(tolerations),
            apart=apart,
            near=dict(near or {}),
            away=dict(away or {}),
        ),
    )
    at = Timestamp(NOW - age)
    return Job(
        id=JobId(name),
        spec=spec,
        created_at=at,
        history=(PhaseEntry(phase=phase, at=at, reason="Submitted"),),
        scale=tuple((RoleName(each), count) for each, count in (scale or {}).items()),
        retry_at=None if retry_at is None else Timestamp(retry_at),
    )


def running(
    waiting: Job,
    on: Mapping[str, int] | Mapping[str, Mapping[str, int]],
    *,
    since: float = 3600.0,
    phase: Phase = Phase.PROCESSING,
    states: Mapping[int, ReplicaState] | None = None,
    slots: Mapping[int, int] | None = None,
    checkpoint: float | None = None,
) -> Job:
    """The same job with its replicas on nodes: ``{"n0": 2}``, or per role ``{"worker": {"n0": 2}}``.

    ``slots`` says which GPU each index shares; ``checkpoint`` how many seconds ago it last saved its work.
    """
    per_role: Mapping[str, Mapping[str, int]]
    per_role = on if any(isinstance(value, Mapping) for value in on.values()) else {waiting.spec.roles[0].name: on}
    statuses = []
    for name, places in per_role.items():
        spots = [spot for spot, count in places.items() for _ in range(count)]
        for index, spot in enumerate(spots):
            state = (states or {}).get(index, ReplicaState.RUNNING)
            replica = ReplicaId(RoleName(name), index)
            slot = (slots or {}).get(index)
            statuses.append(ReplicaStatus(id=replica, node=NodeName(spot), state=state, gpu_slot=slot))
    at = Timestamp(NOW - since)
    history = (
        *waiting.history,
        PhaseEntry(phase=Phase.STARTING, at=at, reason="Placed"),
        PhaseEntry(phase=phase, at=at, reason="Started"),
    )
    return Job(
        id=waiting.id,
        spec=waiting.spec,
        created_at=waiting.created_at,
        history=history,
        attempt=1,
        replicas=tuple(statuses),
        holding=True,
        scale=waiting.scale,
        started_at=at,
        checkpoint_at=None if checkpoint is None else Timestamp(NOW - checkpoint),
    )


def queue(
    name: str,
    *,
    parent: str | None = None,
    weight: int = 1,
    priority: int = 0,
    guarantee: Mapping[str, Any] | None = None,
    limit: Mapping[str, Any] | None = None,
    may_borrow: bool = True,
    tenants: Sequence[str] = (),
    borrowing: Mapping[str, float] | None = None,
    lending: Mapping[str, float] | None = None,
    **more: Any,
) -> Queue:
    """A queue; amounts as ``{"gpus": 8}``. A limit leaves alone what it does not mention; ``more`` goes to Queue."""
    ceiling = None if limit is None else NamedAmounts(_limited(**limit))
    return Queue(
        name=QueueName(name),
        parent=None if parent is None else QueueName(parent),
        weight=weight,
        priority=priority,
        guarantee=_amount(**(guarantee or {})),
        limit=ceiling,
        may_borrow=may_borrow,
        tenants=tuple(map(Tenant, tenants)),
        borrowing_limit=None if borrowing is None else _named(borrowing),
        lending_limit=None if lending is None else _named(lending),
        **more,
    )


def typed(**gpus: float) -> dict[str, Any]:
    """So many GPUs of each type, as amounts of a queue."""
    return {"gpus": sum(gpus.values()), "extended": {f"gpu_millis.{kind}": round(n * 1000) for kind, n in gpus.items()}}


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    """A taint."""
    return Taint(key, value, effect)


def cycle(
    machines: Sequence[Node],
    jobs: Sequence[Job],
    queues: Sequence[Queue] = (),
    policies: Policies = AT_ONCE,
    *,
    now: float = NOW,
    memory: CycleMemory | None = None,
) -> Decision:
    """One decision."""
    snapshot = take_snapshot(nodes=machines, jobs=jobs, queues=queues, now=Timestamp(now), memory=memory)
    return decide(snapshot, policies)


def where(placement: Mapping[ReplicaId, NodeName]) -> dict[str, int]:
    """How many replicas each node got."""
    return dict(Counter(placement.values()))


def _named(amounts: Mapping[str, float]) -> NamedAmounts:
    """Amounts by the names that builders use; any other name is a type of GPU."""
    units = {"gpus": ("gpu_millis", 1000), "cpus": ("cpu_millis", 1000), "memory": ("memory_mib", 1)}
    known = {name: units.get(name, (f"gpu_millis.{name}", 1000)) for name in amounts}
    return NamedAmounts({known[name][0]: round(amount * known[name][1]) for name, amount in amounts.items()})


def _limited(extended: Mapping[str, int] | None = None, **amounts: float) -> dict[str, int]:
    return {**_named(amounts).amounts, **(extended or {})}


def _amount(
    *, gpus: float = 0, cpus: float = 0, memory: int = 0, extended: Mapping[str, int] | None = None
) -> Resources:
    return Resources(
        cpu_millis=round(cpus * 1000), memory_mib=memory, gpu_millis=round(gpus * 1000), extended=dict(extended or {})
    )


@dataclass(frozen=True)
class Scenario:
    """Given nodes, jobs and queues; expected decision. What is not mentioned must not happen.

    ``starts`` says how many replicas land on each node (or, with a number, how many in all);
    ``waits`` names the constraint.
    """

    id: str
    machines: Sequence[Node]
    jobs: Sequence[Job]
    queues: Sequence[Queue] = ()
    policies: Policies = AT_ONCE
    starts: Mapping[str, Mapping[str, int] | int] = field(default_factory=dict)
    waits: Mapping[str, Constraint] = field(default_factory=dict)
    evicts: Mapping[str, str] = field(default_factory=dict)
    shrinks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    grows: Mapping[str, Mapping[str, int] | Sequence[str]] = field(default_factory=dict)

    def check(self) -> None:
        """Run one cycle and compare."""
        decision = cycle(self.machines, self.jobs, self.queues, self.policies)
        got_starts = {start.job_id: start.placement for start in decision.starts}
        assert set(got_starts) == set(self.starts)
        for name, want in self.starts.items():
            placed = got_starts[JobId(name)]
            assert (len(placed) if isinstance(want, int) else where(placed)) == want, name
        assert {name: why.constraint for name, why in decision.explanations.items()} == dict(self.waits)
        assert {each.job_id: each.beneficiary for each in decision.evictions} == dict(self.evicts)
        assert {each.job_id: [str(one) for one in each.removed] for each in decision.shrinks} == {
            name: list(replicas) for name, replicas in self.shrinks.items()
        }
        got_grows = {grow.job_id: grow.added for grow in decision.grows}
        assert set(got_grows) == set(self.grows)
        for name, added in self.grows.items():
            got = got_grows[JobId(name)]
            assert (where(got) if isinstance(added, Mapping) else sorted(str(one) for one in got)) == added, name


def fill(name: str, count: int, on: str, **more: Any) -> list[Job]:
    """``count`` running jobs of one GPU each on one node."""
    return [running(job(f"{name}{i}", **more), {on: 1}) for i in range(count)]
