"""The line of waiting gangs: nominated ones first, then the queues in turn, each in its own order."""

from collections.abc import Iterable, Iterator
from operator import itemgetter
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
        self._next: dict[int, Turn] = {}
        self._open: dict[int, int] = {}
        """For every branch, how many leaves at or below it still have somebody waiting."""
        self._keys: dict[int, tuple[object, ...]] = {}
        self._nominated: list[Turn] = []

    def fill(self, gangs: Iterable[Waiting], nominated: Iterable[JobId] = ()) -> None:
        """Let everybody in; each must belong to a leaf of the tree."""
        owed = {job_id: number for number, job_id in enumerate(nominated)}
        by_queue: dict[QueueName, list[tuple[tuple[object, ...], Turn]]] = {}
        order, now, branches = self._policies.job_order, self._now, self._tree.branches
        for gang in gangs:
            job = gang.job
            queue = job.spec.queue
            turn = Turn(gang, branches[queue], order.rank(job, now))
            if job.id in owed:
                self._nominated.append(turn)
            else:
                key = (turn.rank, order.key(job, now), job.created_at, job.id)
                by_queue.setdefault(queue, []).append((key, turn))
        self._nominated.sort(key=lambda turn: owed[turn.gang.job.id])
        for name, members in by_queue.items():
            members.sort(key=itemgetter(0))
            leaf = branches[name]
            self._gangs[id(leaf)] = iter([turn for _, turn in members])
            self._advance(leaf)
            for branch in (*leaf.path, self._tree.root):
                self._open[id(branch)] = self._open.get(id(branch), 0) + 1

    def __iter__(self) -> Iterator[Turn]:
        yield from self._nominated
        while self._open.get(id(self._tree.root)):
            leaf = self._descend(self._tree.root)
            turn = self._next.pop(id(leaf))
            if not self._advance(leaf):
                for branch in (*leaf.path, self._tree.root):
                    self._open[id(branch)] -= 1
            yield turn

    def served(self, leaf: Branch) -> None:
        """A queue has got something: its share, and that of the queues above it, is no longer what it was."""
        for branch in leaf.path:
            self._keys.pop(id(branch), None)

    def _advance(self, leaf: Branch) -> bool:
        turn = next(self._gangs[id(leaf)], None)
        if turn is not None:
            self._next[id(leaf)] = turn
        return turn is not None

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
