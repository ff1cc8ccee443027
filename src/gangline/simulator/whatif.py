"""What would happen: the live state, run forward with jobs not yet submitted or machines not yet bought."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangline.errors import InvalidInputError
from gangline.lifecycle import advance, new_job
from gangline.lifecycle.events import GangEvicted, GangPlaced, GangShrunk, GangStopped
from gangline.model import Job, JobId, JobSpec, Node, NodeName, Queue, ReplicaId, Resources, Timestamp
from gangline.scheduling import DEFAULT_POLICIES, Decision, Eviction, Explanation, Policies, decide, take_snapshot
from gangline.scheduling.forecast import expected_end

CPUS_PER_GPU = 12
MEMORY_MIB_PER_GPU = 131_072
_NODES = re.compile(r"(\d+)x(\d+)x([a-z0-9-]+)")
_CYCLES_LIMIT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a job would meet: where and when it would start, who would be stopped for it, or why it would wait.

    ``starts_at`` is None when nothing that is running now would ever let it start.
    """

    starts_at: Timestamp | None
    placement: Mapping[ReplicaId, NodeName]
    evictions: tuple[Eviction, ...]
    explanation: Explanation | None


def parse_nodes(text: str) -> list[Node]:
    """Read nodes not yet bought: ``8x8xh200`` is eight nodes of eight H200, with processor and memory to match."""
    match = _NODES.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"'{text}' describes no nodes", expected="COUNTxGPUSxTYPE, for example 8x8xh200")
    count, gpus, kind = int(match[1]), int(match[2]), match[3]
    capacity = Resources(
        cpu_millis=1000 * CPUS_PER_GPU * max(gpus, 1),
        memory_mib=MEMORY_MIB_PER_GPU * max(gpus, 1),
        gpu_millis=1000 * gpus,
    )
    return [Node(name=NodeName(f"new-{kind}-{i}"), capacity=capacity, gpu_type=kind) for i in range(count)]


def what_if(
    spec: JobSpec,
    *,
    nodes: Sequence[Node],
    jobs: Sequence[Job],
    queues: Sequence[Queue],
    now: Timestamp,
    policies: Policies = DEFAULT_POLICIES,
) -> Answer:
    """Submit a job in thought. Runs the real scheduler at every moment at which a running gang is expected to end."""
    candidate = new_job(JobId("what-if"), spec, now)
    alive: dict[JobId, Job] = {job.id: job for job in (*jobs, candidate) if job.placeable or job.holding}
    first_why: Explanation | None = None
    evictions: tuple[Eviction, ...] = ()
    at = now
    memory = None
    for _ in range(_CYCLES_LIMIT):
        snapshot = take_snapshot(nodes=nodes, jobs=alive.values(), queues=queues, now=at, memory=memory)
        decision = decide(snapshot, policies)
        memory = decision.memory
        evictions = evictions or tuple(each for each in decision.evictions if each.beneficiary == candidate.id)
        if first_why is None:
            first_why = decision.explanations.get(candidate.id)
        for start in decision.starts:
            if start.job_id == candidate.id:
                return Answer(starts_at=at, placement=start.placement, evictions=evictions, explanation=first_why)
        _carry_out(decision, alive, at)
        if decision.evictions or decision.starts or decision.shrinks:
            continue
        leaving = min(snapshot.held.values(), key=lambda held: (expected_end(held, at), held.job.id), default=None)
        if leaving is None:
            break
        at = max(at, expected_end(leaving, at))
        del alive[leaving.job.id]
    return Answer(starts_at=None, placement={}, evictions=(), explanation=first_why)


def _carry_out(decision: Decision, alive: dict[JobId, Job], at: Timestamp) -> None:
    """Let the decision happen at once, through the real lifecycle."""
    for start in decision.starts:
        placed = GangPlaced(job_id=start.job_id, at=at, placement=start.placement)
        alive[start.job_id] = advance(alive[start.job_id], placed).job
    for shrink in decision.shrinks:
        shrunk = GangShrunk(job_id=shrink.job_id, at=at, removed=shrink.removed, reason=shrink.reason)
        alive[shrink.job_id] = advance(alive[shrink.job_id], shrunk).job
    for eviction in decision.evictions:
        evicted = GangEvicted(job_id=eviction.job_id, at=at, reason=eviction.reason)
        halting = advance(alive[eviction.job_id], evicted).job
        stopped = GangStopped(job_id=eviction.job_id, at=at, attempt=halting.attempt)
        alive[eviction.job_id] = advance(halting, stopped).job
