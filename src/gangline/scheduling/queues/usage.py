"""Fair share over time: what a queue has used counts against it, less and less as it recedes."""

from gangline.model import QueueName, Timestamp
from gangline.scheduling.cycle_memory import CycleMemory, PastUse
from gangline.scheduling.queues.quota import QueueTree


def remember_usage(
    tree: QueueTree, memory: CycleMemory, now: Timestamp, half_life_seconds: float | None
) -> dict[QueueName, PastUse]:
    """Bring the decayed dominant share of every leaf up to date and write it into the tree; empty when not wanted.

    A cycle follows every start and end, so since the last one a queue has had what it had then.
    """
    if half_life_seconds is None:
        return {}
    usage: dict[QueueName, PastUse] = {}
    for name in tree.leaves():
        leaf = tree.branches[name]
        before = memory.usage.get(name, PastUse(0.0, now, 0.0))
        kept = 0.5 ** (max(now - before.at, 0.0) / half_life_seconds)
        usage[name] = PastUse(before.share * kept + before.using * (1.0 - kept), now, tree.use(leaf))
    for name, past in usage.items():
        for branch in tree.branches[name].path:
            branch.past += past.share
    return usage
