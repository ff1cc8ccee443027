"""How a platform stands at one moment, as a monitoring system wants it: counts and amounts, no names of jobs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gangline.model.explanation import Explanation
from gangline.model.identity import JobId, QueueName, Tenant
from gangline.model.jobs.job import Job, ReplicaState
from gangline.model.jobs.phase import Phase
from gangline.model.node import Node
from gangline.model.observation import Usage

UNSEEN = "not-looked-at"
"""The reason of a job that no scheduling cycle has looked at yet."""
_HOLDING = frozenset({ReplicaState.PENDING, ReplicaState.RUNNING, ReplicaState.BACKING_OFF})


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The counts. Amounts are whole CPUs and GPUs, parts of them included."""

    jobs: Mapping[tuple[Tenant, Phase], int] = field(default_factory=dict)
    waiting: Mapping[tuple[QueueName, str], int] = field(default_factory=dict)
    """Jobs that wait for machines, by queue and by what holds them back first."""
    cpus: Mapping[Tenant, float] = field(default_factory=dict)
    gpus: Mapping[Tenant, float] = field(default_factory=dict)
    """What the tenants hold."""
    cpu_capacity: float = 0.0
    gpu_capacity: float = 0.0
    nodes: Mapping[bool, int] = field(default_factory=dict)
    """How many nodes there are, by whether they take replicas."""
    gpu_busy: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """How busy each device is, from 0 to 1, by node and device."""


def figures_of(
    jobs: Iterable[Job], reasons: Mapping[JobId, Explanation | None], nodes: Sequence[Node], usage: Usage
) -> Figures:
    """Count what is unfinished and what there is."""
    phases: dict[tuple[Tenant, Phase], int] = {}
    waiting: dict[tuple[QueueName, str], int] = {}
    cpus: dict[Tenant, float] = {}
    gpus: dict[Tenant, float] = {}
    for job in jobs:
        tenant = job.spec.tenant
        phases[tenant, job.phase] = phases.get((tenant, job.phase), 0) + 1
        if job.placeable:
            why = reasons.get(job.id)
            place = (job.spec.queue, UNSEEN if why is None or why.constraint is None else str(why.constraint))
            waiting[place] = waiting.get(place, 0) + 1
        held = [job.spec.role(each.id.role).resources for each in job.replicas if each.state in _HOLDING]
        if job.holding and held:
            cpus[tenant] = cpus.get(tenant, 0.0) + sum(each.cpu_millis for each in held) / 1000
            gpus[tenant] = gpus.get(tenant, 0.0) + sum(each.gpu_millis for each in held) / 1000
    busy = {
        (str(each.node), device): percent / 100 for each in usage.nodes for device, percent in each.gpu_percent.items()
    }
    ready = [node for node in nodes if node.ready and not node.cordoned]
    return Figures(
        jobs=phases,
        waiting=waiting,
        cpus=cpus,
        gpus=gpus,
        cpu_capacity=sum(node.capacity.cpu_millis for node in nodes) / 1000,
        gpu_capacity=sum(node.capacity.gpu_millis for node in nodes) / 1000,
        nodes={True: len(ready), False: len(nodes) - len(ready)},
        gpu_busy=busy,
    )
