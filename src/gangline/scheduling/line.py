"""The line of waiting gangs: nominated ones first, then the queues in turn, each in its own order."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gangline.model import JobId, QueueName, Timestamp
from gangline.scheduling.holdings import Waiting
from gangline.scheduling.policies import Policies
from gangline.scheduling.quota import Branch, QueueTree


@dataclass(frozen=True, slots=True)
class Turn:
    """A gang whose turn it is, its queue, and how important it is there (the lower the more)."""

    gang: Waiting
    leaf: Branch
    rank: float


class Line:
    """Hands out waiting gangs one by one; which queue is next depends on what was booked before."""

    def __init__(self, tree: QueueTree, policies: Policies, now: Timestamp) -> None:
        self._tree = tree
        self._policies = policies
        self._now = now
        self._gangs: dict[int, deque[Waiting]] = {}
        self._pending: dict[int, int] = {}
        self._keys: dict[int, tuple[object, ...]] = {}
        self._nominated: list[Turn] = []

    def fill(self, gangs: Iterable[Waiting], nominated: Iterable[JobId] = ()) -> None:
        """Let everybody in; each must belong to a leaf of the tree."""
        owed = {job_id: number for number, job_id in enumerate(nominated)}
        by_queue: dict[QueueName, list[Waiting]] = {}
        for gang in gangs:
            if gang.job.id in owed:
                self._nominated.append(self.turn(gang, self._tree.branches[gang.job.spec.queue]))
            else:
                by_queue.setdefault(gang.job.spec.queue, []).append(gang)
        self._nominated.sort(key=lambda turn: owed[turn.gang.job.id])
        for name, members in by_queue.items():
            branch: Branch | None = self._tree.branches[name]
            self._gangs[id(branch)] = deque(sorted(members, key=self.key))
            while branch is not None:
                self._pending[id(branch)] = self._pending.get(id(branch), 0) + len(members)
                branch = branch.parent

    def turn(self, gang: Waiting, leaf: Branch) -> Turn:
        """A gang with its queue and rank."""
        return Turn(gang, leaf, self._policies.job_order.rank(gang.job, self._now))

    def key(self, gang: Waiting) -> tuple[object, ...]:
        """The order inside a queue."""
        order = self._policies.job_order
        return (order.rank(gang.job, self._now), order.key(gang.job, self._now), gang.job.created_at, gang.job.id)

    def __iter__(self) -> Iterator[Turn]:
        yield from self._nominated
        while self._pending.get(id(self._tree.root)):
            leaf = self._descend(self._tree.root)
            gang = self._gangs[id(leaf)].popleft()
            branch: Branch | None = leaf
            while branch is not None:
                self._pending[id(branch)] -= 1
                branch = branch.parent
            yield self.turn(gang, leaf)

    def served(self, leaf: Branch) -> None:
        """A queue has got something: its share, and that of the queues above it, is no longer what it was."""
        for branch in leaf.path:
            self._keys.pop(id(branch), None)

    def _descend(self, branch: Branch) -> Branch:
        while branch.children:
            waiting = [child for child in branch.children if self._pending.get(id(child))]
            branch = waiting[0] if len(waiting) == 1 else min(waiting, key=self._queue_key)
        return branch

    def _queue_key(self, branch: Branch) -> tuple[object, ...]:
        known = self._keys.get(id(branch))
        if known is None:
            share = self._tree.share(branch)
            below = self._tree.below_guarantee(branch)
            known = (*self._policies.queue_order.key(branch.queue, share, below_guarantee=below), branch.queue.name)
            self._keys[id(branch)] = known
        return known
