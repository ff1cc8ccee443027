"""Builders of model values for tests: everything has a default, a test names only what matters to it."""

from collections.abc import Mapping
from typing import Any

from gangline.lifecycle import advance, new_job
from gangline.lifecycle.events import GangPlaced, ReplicaStarted
from gangline.model import (
    Job,
    JobId,
    JobSpec,
    Node,
    NodeName,
    Policy,
    ReplicaId,
    Resources,
    RoleName,
    RoleSpec,
    Tenant,
    Timestamp,
)
from gangline.model.sweep import Objective, Parameter, Sweep, SweepId, SweepSpec

START = Timestamp(1_000_000.0)
GRID = (Parameter("layers", ("1", "2", "3")), Parameter("rate", ("0.1", "0.01")))
ACCURACY = Objective("accuracy")


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: float = START) -> None:
        self._now = now

    def now(self) -> Timestamp:
        """Return the time the test has set."""
        return Timestamp(self._now)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


def make_role(name: str = "worker", **fields: Any) -> RoleSpec:
    """Return a role of one replica that runs ``true``."""
    fields.setdefault("command", ("true",))
    return RoleSpec(name=RoleName(name), **fields)


def make_spec(name: str = "mnist", *, roles: tuple[RoleSpec, ...] | None = None, **fields: Any) -> JobSpec:
    """Return a job of one worker."""
    policy = fields.pop("policy", None) or Policy()
    return JobSpec(name=name, roles=roles or (make_role(),), policy=policy, **fields)


def make_job(spec: JobSpec | None = None, *, job_id: str = "job-1", at: float = START, **fields: Any) -> Job:
    """Return a job that was just submitted; further fields describe its spec."""
    return new_job(JobId(job_id), spec or make_spec(**fields), Timestamp(at))


def make_placement(spec: JobSpec, node: str = "node-0") -> Mapping[ReplicaId, NodeName]:
    """Put every replica of a job on one node."""
    return {ReplicaId(role.name, index): NodeName(node) for role in spec.roles for index in range(role.replicas)}


def make_running_job(spec: JobSpec | None = None, *, at: float = START, **fields: Any) -> Job:
    """Return a job whose replicas have all started."""
    job = make_job(spec, at=at, **fields)
    job = advance(job, GangPlaced(job_id=job.id, at=Timestamp(at), placement=make_placement(job.spec))).job
    for status in job.replicas:
        started = ReplicaStarted(job_id=job.id, at=Timestamp(at), attempt=job.attempt, replica=status.id)
        job = advance(job, started).job
    return job


def make_node(name: str = "node-0", *, cpu: float = 8, memory_gib: float = 32, gpus: int = 0, **fields: Any) -> Node:
    """Return a node of eight cores."""
    capacity = Resources(cpu_millis=int(cpu * 1000), memory_mib=int(memory_gib * 1024), gpu_millis=gpus * 1000)
    return Node(name=NodeName(name), capacity=capacity, **fields)


def make_sweep(
    name: str = "grid",
    *,
    sweep_id: str = "sweep-1",
    at: float = START,
    tenant: str = "default",
    template: JobSpec | None = None,
    parameters: tuple[Parameter, ...] = GRID,
    parallelism: int | None = None,
    objective: Objective | None = ACCURACY,
    **fields: Any,
) -> Sweep:
    """Return a grid of six trials that was just submitted; further fields say how far it is."""
    command = ("python", "train.py", *(f"$({parameter.name})" for parameter in parameters))
    spec = SweepSpec(
        name=name,
        template=template or make_spec(name, roles=(make_role(command=command),), tenant=Tenant(tenant)),
        parameters=parameters,
        parallelism=parallelism,
        objective=objective,
    )
    return Sweep(id=SweepId(sweep_id), spec=spec, created_at=Timestamp(at), **fields)
