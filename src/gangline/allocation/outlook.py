"""What a job's measurements say to a person: why it has its size, and what another size would bring."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gangline.allocation.sizes import Candidate
from gangline.allocation.speed_curve import fewest_nodes
from gangline.model import Job, RoleName
from gangline.model.jobs.spec import SERVICE_ROLES, Sizing

PER_NODE = 8
"""Workers taken to share a node where nobody knows better; it matters only to jobs that tell of their exchanges."""


class Outlook(NamedTuple):
    """One size: how many times as fast as now it would be, between which bounds, and the batch that suits it."""

    workers: int
    speedup: float
    low: float
    high: float
    seen: bool
    batch: int


def sized_role_of(job: Job) -> RoleName | None:
    """The role whose replicas the scheduler counts out, if it does."""
    if job.spec.policy.replicas is not Sizing.AUTO or job.scale:
        return None
    names = [role.name for role in job.spec.roles if role.elastic and role.name not in SERVICE_ROLES]
    return names[0] if len(names) == 1 else None


def present_size(job: Job) -> int:
    """How many replicas of that role there are now."""
    role = sized_role_of(job)
    return sum(status.id.role == role for status in job.replicas) if job.holding else 0


def outlooks(job: Job, sizes: Iterable[int]) -> Iterator[Outlook]:
    """What each size would bring; nothing while nothing was measured."""
    candidate = candidate_of(job)
    if candidate is None or candidate.curve is None or candidate.record is None:
        return
    now = max(candidate.present or candidate.least, 1)
    curve, servers = candidate.curve, candidate.servers
    base = curve.speed(now, nodes=fewest_nodes(now, PER_NODE), servers=servers)
    seen = {sample.workers for sample in candidate.record.samples}
    for size in sizes:
        each = curve.at(size, nodes=fewest_nodes(size, PER_NODE), servers=servers)
        yield Outlook(
            size, each.speed / base, each.low / base, each.high / base, size in seen, each.batch * each.passes
        )


def candidate_of(job: Job) -> Candidate | None:
    """The job as the choice of sizes sees it; None if its size is not the scheduler's to choose."""
    name = sized_role_of(job)
    if name is None:
        return None
    role = job.spec.role(name)
    servers = sum(each.replicas for each in job.spec.roles if each.name == "ps")
    return Candidate(
        name=job.name,
        least=role.least,
        most=role.most,
        present=present_size(job),
        per_node=PER_NODE,
        servers=servers,
        record=job.speed,
    )


def size_sentences(job: Job, others: Iterable[Job] = ()) -> Iterator[str]:
    """Why a job has its size, what one more replica would bring it, and whom that would cost how much."""
    candidate = candidate_of(job)
    if candidate is None or not candidate.present:
        return
    count = candidate.present
    yield (
        f"The scheduler chooses its size, between {candidate.least} and {candidate.most}: "
        f"it has {count} {sized_role_of(job)}{'s' * (count != 1)}."
    )
    if candidate.record is None or candidate.curve is None:
        yield "It has not reported its progress yet, so it keeps the least it can run with."
        return
    tried = candidate.record.largest_tried
    if count >= candidate.most:
        yield "It may not have more."
        return
    (more,) = outlooks(job, [count + 1])
    sure = "which it has had before" if more.seen else f"more than {tried} was never tried"
    between = f"between {_percent(more.low)} and {_percent(more.high)}"
    yield f"One more would make it {_percent(more.speedup)} ({between}): {sure}."
    if more.speedup <= 1:
        return
    losses = [(loss, other.name) for other in others if other.id != job.id and (loss := _loss(other)) is not None]
    if losses:
        loss, name = min(losses)
        yield f"If nothing is free it would come from '{name}', which would be {_percent(1 - loss)} without it."


def _loss(job: Job) -> float | None:
    """The part of its speed that a job would lose with one replica; None if it has none to give."""
    candidate = candidate_of(job)
    if candidate is None or candidate.curve is None or candidate.present <= candidate.least:
        return None
    (less,) = outlooks(job, [candidate.present - 1])
    return 1.0 - less.speedup


def _percent(factor: float) -> str:
    change = round(100 * (factor - 1))
    if change == 0:
        return "no faster"
    return f"{change} % faster" if change > 0 else f"{-change} % slower"
