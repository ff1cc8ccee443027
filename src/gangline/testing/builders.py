"""Builders of model values for tests: everything has a default, a test names only what matters to it."""

import json
from collections.abc import Mapping
from dataclasses import replace
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
    Queue,
    QueueStatus,
    ReplicaId,
    Resources,
    RoleName,
    RoleSpec,
    Tenant,
    Timestamp,
)
from gangline.model.kinds.pipeline import PipelineRun, PipelineSpec, PipelineStatus
from gangline.model.kinds.sweep import (
    AddedTrial,
    Budget,
    End,
    EndReason,
    Goal,
    KnownTrial,
    Objective,
    Sweep,
    SweepProgress,
    SweepSpec,
)
from gangline.model.record import Record, RecordId
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.stopping import Mark, Rule, Stopping

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


ONE_STEP: Mapping[str, Any] = {
    "pipelineInfo": {"name": "one"},
    "schemaVersion": "2.1.0",
    "components": {"comp-a": {"executorLabel": "exec-a"}},
    "deploymentSpec": {"executors": {"exec-a": {"container": {"image": "alpine", "command": ["true"]}}}},
    "root": {"dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}}}}},
}
"""A compiled pipeline of one step."""


def make_run(
    name: str = "one",
    *,
    at: float = START,
    document: Mapping[str, Any] = ONE_STEP,
    tenant: str = "default",
    **about: Any,
) -> PipelineRun:
    """Return a run of a pipeline that was just submitted; further fields are those of its spec."""
    spec = PipelineSpec(name=name, documents_json=json.dumps([document]), tenant=Tenant(tenant), **about)
    return PipelineRun(id=RecordId(f"r-{name}"), spec=spec, status=PipelineStatus(), created_at=Timestamp(at))


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
    deleting: bool = False,
    **progress: Any,
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
    return Sweep(
        id=RecordId(sweep_id),
        spec=spec,
        status=SweepProgress(**progress),
        created_at=Timestamp(at),
        deleting=deleting,
    )


def make_search() -> Sweep:
    """Return a sweep with everything that a search may say and have on record."""
    parameters = (
        Parameter("rate", range=Range(low=0.001, high=1.0, log=True)),
        Parameter("kind", ("a", "b")),
        Parameter("size", range=Range(low=2, high=8, step=2, whole=True), when=(("kind", ("b",)),)),
    )
    sweep = make_sweep(
        "search",
        sweep_id="search-1",
        parallelism=1,
        begun=2,
        added=(AddedTrial(values={"rate": "0.5", "kind": "a"}),),
        added_begun=1,
        marks=(Mark(trial=0, step=1, value=-0.25, passed=True),),
        pruned=(1,),
        end=End(reason=EndReason.TIME_USED, message="its 90 s are over"),
    )
    spec = replace(
        sweep.spec,
        parameters=parameters,
        sampler="tpe",
        settings={"multivariate": True, "n_startup_trials": 3},
        seed=7,
        objective=Objective("loss", Goal.MINIMIZE, 0.01),
        budget=Budget(trials=9, time_seconds=90.0, gpu_hours=0.5, failures=2),
        stopping=Stopping(rule=Rule.HYPERBAND, last=27),
        known=(KnownTrial(values={"rate": "0.1", "kind": "b", "size": "4"}, results={"loss": 0.5}),),
    )
    return replace(sweep, spec=spec)


def make_queue(queue: Queue, *, record_id: str | None = None) -> Record[Queue, QueueStatus]:
    """Return a queue as it is kept."""
    return Record(id=RecordId(record_id or queue.name), spec=queue, status=QueueStatus(), created_at=Timestamp(START))
