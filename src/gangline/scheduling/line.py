"""The line of waiting gangs: nominated ones first, then the queues in turn, each in its own order."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

from gangline.model import JobId, QueueName, Timestamp
from gangline.scheduling.holdings import Waiting
from gangline.scheduling.policies import Policies
from gangline.scheduling.quota import Branch, QueueTree


class Turn(NamedTuple):
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
        self._gangs: dict[int, Iterator[Turn]] = {}
        self._served = False
        self._open: dict[int, int] = {}
        """For every branch, how many leaves at or below it still have somebody waiting."""
        self._keys: dict[int, tuple[object, ...]] = {}
        self._nominated: list[Turn] = []

    def fill(self, gangs: Iterable[Waiting], nominated: Iterable[JobId] = ()) -> None:
        """Let everybody in; each must belong to a leaf of the tree."""
        owed = {job_id: number for number, job_id in enumerate(nominated)}
        by_queue: dict[QueueName, dict[float, list[Waiting]]] = defaultdict(lambda: defaultdict(list))
        rank, now = self._policies.job_order.rank, self._now
        for gang in gangs:
            job = gang.job
            if job.id in owed:
                self._nominated.append(Turn(gang, self._tree.branches[job.spec.queue], rank(job, now)))
            else:
                by_queue[job.spec.queue][rank(job, now)].append(gang)
        self._nominated.sort(key=lambda turn: owed[turn.gang.job.id])
        for name, ranks in by_queue.items():
            leaf = self._tree.branches[name]
            self._gangs[id(leaf)] = self._in_order(leaf, ranks)
            for branch in (*leaf.path, self._tree.root):
                self._open[id(branch)] = self._open.get(id(branch), 0) + 1

    def _in_order(self, leaf: Branch, ranks: Mapping[float, list[Waiting]]) -> Iterator[Turn]:
        """The gangs of one queue. A hundred thousand may wait, so nothing is made for those nobody gets to."""
        key, now = self._policies.job_order.key, self._now
        for rank in sorted(ranks):
            members = ranks[rank]
            members.sort(key=_age)
            members.sort(key=lambda gang: key(gang.job, now))
            for gang in members:
                yield Turn(gang, leaf, rank)

    def __iter__(self) -> Iterator[Turn]:
        yield from self._nominated
        while self._open.get(id(self._tree.root)):
            leaf = self._descend(self._tree.root)
            self._served = False
            for turn in self._gangs[id(leaf)]:
                yield turn
                # A queue goes on until it gets something: a refusal changes nobody's share.
                if self._served:
                    break
            else:
                self._close(leaf)

    def served(self, leaf: Branch) -> None:
        """A queue has got something: its share, and that of the queues above it, is no longer what it was."""
        self._served = True
        for branch in leaf.path:
            self._keys.pop(id(branch), None)

    def _close(self, leaf: Branch) -> None:
        for branch in (*leaf.path, self._tree.root):
            self._open[id(branch)] -= 1

    def _descend(self, branch: Branch) -> Branch:
        while branch.children:
            if len(branch.children) == 1:
                branch = branch.children[0]
                continue
            waiting = [child for child in branch.children if self._open.get(id(child))]
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


_age = attrgetter("age")
