"""Fair share over time: what a queue has used counts against it, less and less as it recedes."""

from gangline.model import QueueName, Timestamp
from gangline.scheduling.memory import Memory
from gangline.scheduling.quota import QueueTree


def remember_usage(
    tree: QueueTree, memory: Memory, now: Timestamp, half_life_seconds: float | None
) -> dict[QueueName, float]:
    """Bring the decayed dominant share of every leaf up to date and write it into the tree; empty when not wanted.

    The share of a queue is taken as it is now for the whole time since the last cycle. A cycle follows every start
    and end, so that is what it was.
    """
    if half_life_seconds is None:
        return {}
    elapsed = 0.0 if memory.usage_at is None else max(now - memory.usage_at, 0.0)
    kept = 0.5 ** (elapsed / half_life_seconds)
    usage: dict[QueueName, float] = {}
    for name in tree.leaves():
        leaf = tree.branches[name]
        usage[name] = memory.usage.get(name, 0.0) * kept + tree.use(leaf) * (1.0 - kept)
    for name, past in usage.items():
        for branch in tree.branches[name].path:
            branch.past += past
    return usage
