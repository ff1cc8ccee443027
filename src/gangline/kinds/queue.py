"""The kind Queue: a share of the machines, the same for every tenant that it admits."""

from collections.abc import Sequence
from dataclasses import replace

from gangline.errors import ConflictError, InvalidInputError, NotFoundError
from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Column, Kind, Reader, Scope
from gangline.kinds.registry import all_kinds
from gangline.model import Queue, QueueName, QueueStatus, Tenant
from gangline.model.kinds.queue import ROOT_QUEUE, queue_path
from gangline.model.record import Record

QueueRecord = Record[Queue, QueueStatus]


async def check_queue(before: QueueRecord | None, after: QueueRecord | None, reader: Reader) -> None:
    """Refuse what would leave jobs or queues without the queue they stand in."""
    others = [each.spec for each in await reader.records(QUEUE) if before is None or each.name != before.name]
    if after is None:
        if before is not None:
            await _check_unused(before.spec, others, reader)
        return
    if after.spec.parent is not None:
        _check_parent(after.spec, others)
        if after.spec.parent == ROOT_QUEUE.name:
            raise ConflictError(
                f"jobs go to '{ROOT_QUEUE.name}' that name no queue, and one with others below holds none"
            )
        if not _groups(after.spec.parent, others) and (users := await _users(after.spec.parent, reader)):
            raise ConflictError(
                f"queue '{after.spec.parent}' has {users}, and only a queue without others below it holds jobs"
            )


async def _check_unused(queue: Queue, others: Sequence[Queue], reader: Reader) -> None:
    if queue.name == ROOT_QUEUE.name:
        raise ConflictError(f"the queue '{queue.name}' is where jobs go that name none; it cannot be deleted")
    below = sorted(each.name for each in others if each.parent == queue.name)
    if below:
        raise ConflictError(f"queue '{queue.name}' has others below it: {', '.join(below)}; delete those first")
    if users := await _users(queue.name, reader):
        raise ConflictError(f"queue '{queue.name}' has {users}; cancel them or wait for their end")


async def _users(queue: QueueName, reader: Reader) -> str:
    """Say what needs the queue: jobs, and what will make more of them; nothing is the empty text."""
    if jobs := await reader.jobs(queue=queue):
        return "1 unfinished job" if len(jobs) == 1 else f"{len(jobs)} unfinished jobs"
    makers = [
        f"{kind.name} {record.name}"
        for kind in all_kinds()
        if kind.each_template is not None
        for record in await reader.records(kind)
        if not record.settled and any(job.queue == queue for job in kind.templates(record.spec))
    ]
    return f"unfinished {', '.join(makers)}" if makers else ""


def _check_parent(queue: Queue, others: Sequence[Queue]) -> None:
    parents = {each.name: each.parent for each in others}
    above, seen = queue.parent, {queue.name}
    if above not in parents and above != queue.name:
        raise NotFoundError("queue", str(above), hint=f"create it before '{queue.name}', which it is the parent of")
    while above is not None:
        if above in seen:
            raise InvalidInputError(
                f"queue '{queue.name}' would be its own ancestor", field="spec.parent", expected="a queue above it"
            )
        seen.add(above)
        above = parents.get(above)


def _groups(name: QueueName, queues: Sequence[Queue]) -> bool:
    return any(each.parent == name for each in queues)


def confined_queue(record: QueueRecord, tenants: frozenset[Tenant], queues: Sequence[Queue]) -> QueueRecord | None:
    """Show a queue to those whom it and all above it admit, without the names of others."""
    queue = record.spec
    path = queue_path(queue.name, {each.name: each for each in queues})
    if not any(all(each.admits(tenant) for each in path) for tenant in tenants):
        return None
    return replace(record, spec=replace(queue, tenants=tuple(each for each in queue.tenants if each in tenants)))


QUEUE: Kind[Queue, QueueStatus, QueueRecord] = Kind(
    name="queue",
    plural="queues",
    summary="Create, list and change queues.",
    description="A tenant's share of the machines, in a tree.",
    spec=Queue,
    status=QueueStatus,
    format=derived_format(Queue, "Queue", "A share of the machines."),
    answer=QueueRecord,
    scope=Scope.CLUSTER,
    editable=True,
    columns=(
        Column("PARENT", lambda queue: queue.spec.parent),
        Column("WEIGHT", lambda queue: queue.spec.weight),
        Column("GUARANTEE", lambda queue: queue.spec.guarantee),
        Column("LIMIT", lambda queue: queue.spec.limit or "none"),
        Column(
            "PAST USE", lambda queue: f"{queue.status.past_use:.0%}" if queue.status.past_use_at else None, wide=True
        ),
        Column("TENANTS", lambda queue: ", ".join(queue.spec.tenants) or "all"),
    ),
    check=check_queue,
    confined=confined_queue,
    always=(ROOT_QUEUE,),
)
