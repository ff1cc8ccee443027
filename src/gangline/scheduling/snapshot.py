"""Everything a cycle may know, taken once. Policies and plugins receive it and nothing else."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gangline.model import Job, JobId, Node, Queue, Timestamp
from gangline.scheduling.cycle_memory import CycleMemory
from gangline.scheduling.gangs.holdings import Held, Holdings, Waiting, gather
from gangline.scheduling.nodes.draft import Draft
from gangline.scheduling.nodes.table import NodeTable, table_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Nodes, queues and gangs at one moment. Nobody changes it; what-ifs happen in a ``draft``."""

    now: Timestamp
    table: NodeTable
    queues: tuple[Queue, ...]
    holdings: Holdings
    memory: CycleMemory = field(default_factory=CycleMemory)

    @property
    def held(self) -> Mapping[JobId, Held]:
        """Gangs that occupy machines, by job."""
        return self.holdings.held

    @property
    def waiting(self) -> Mapping[JobId, Waiting]:
        """Gangs that wait, by job; some of them for a back-off to end."""
        return self.holdings.waiting

    def draft(self) -> Draft:
        """A copy of what is free, to try placements in."""
        return self.holdings.draft.copy()


def take_snapshot(
    *,
    nodes: Sequence[Node],
    jobs: Iterable[Job],
    queues: Sequence[Queue],
    now: Timestamp,
    memory: CycleMemory | None = None,
) -> Snapshot:
    """Lay out nodes, jobs and queues for ``decide``.

    ``memory`` comes from the last decision. With it the cost is that of the jobs that changed since; jobs and nodes
    are compared by identity first, so hand over the same objects when nothing happened to them.
    """
    memory = memory or CycleMemory()
    before = memory.holdings
    known = before.draft.table if before is not None else None
    table = known if known is not None and _same(known, nodes) else table_of(nodes)
    holdings = gather(table, jobs, before)
    return Snapshot(now=now, table=table, queues=tuple(queues), holdings=holdings, memory=memory)


def _same(table: NodeTable, nodes: Sequence[Node]) -> bool:
    if nodes is table.source:
        return True
    return len(nodes) == len(table) and all(
        node is mine or node == mine for node, mine in zip(sorted(nodes, key=_name), table.nodes, strict=True)
    )


def _name(node: Node) -> str:
    return node.name
