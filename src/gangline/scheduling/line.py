"""The line of waiting gangs: nominated ones first, then the queues in turn, each in its own order.

Where queues share, the line passes twice. First come gangs that the share of their queue covers, from the queue that
has least; then those beyond it, from the queue that would have least. So nobody gets what somebody else in line may
take back at once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from gangline.model import JobId, QueueName, Timestamp
from gangline.scheduling.holdings import Waiting
from gangline.scheduling.policies import Policies
from gangline.scheduling.quota import Branch, QueueTree
from gangline.scheduling.table import Ints


class Turn(NamedTuple):
    """A gang whose turn it is, its queue, and how important it is there (the lower the more)."""

    gang: Waiting
    leaf: Branch
    rank: float


class Line:
    """Hands out waiting gangs one by one; which queue is next depends on what was booked before."""

    def __init__(
        self, tree: QueueTree, policies: Policies, now: Timestamp, need: Callable[[Waiting], Ints] | None = None
    ) -> None:
        """``need`` tells what a gang would get; without it, nobody's share is too small for anything."""
        self._tree = tree
        self._policies = policies
        self._now = now
        self._need = need
        self._gangs: dict[QueueName, Iterator[Turn]] = {}
        self._beyond: dict[QueueName, list[Turn]] = defaultdict(list)
        self._covered: dict[tuple[QueueName, int], bool] = {}
        self._nominated: list[Turn] = []
        self._rota: _Rota | None = None

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
        self._gangs = {name: self._in_order(self._tree.branches[name], ranks) for name, ranks in by_queue.items()}

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
        if not self._tree.divided:
            yield from chain.from_iterable(self._gangs.values())
            return
        if self._need is None:
            yield from self._pass(self._gangs)
            return
        yield from self._pass(self._gangs, admits=self._is_covered)
        beyond = {name: iter(turns) for name, turns in self._beyond.items()}
        yield from self._pass(beyond, need=self._need)

    def _pass(
        self,
        gangs: Mapping[QueueName, Iterator[Turn]],
        *,
        admits: Callable[[Turn], bool] | None = None,
        need: Callable[[Waiting], Ints] | None = None,
    ) -> Iterator[Turn]:
        self._rota = rota = _Rota(self._tree, self._policies, need)
        rota.open(gangs)
        while (turn := rota.take()) is not None:
            if admits is None or admits(turn):
                yield turn
            else:
                self._beyond[turn.leaf.queue.name].append(turn)
            rota.advance(turn)

    def _is_covered(self, turn: Turn) -> bool:
        """Whether the share of its queue, and of those above, is enough for a gang now that its turn has come."""
        assert self._need is not None
        asked = (turn.leaf.queue.name, id(turn.gang.demand))
        known = self._covered.get(asked)
        if known is None:
            known = self._covered[asked] = self._tree.covers(turn.leaf.path, self._need(turn.gang))
        return known

    def served(self, leaf: Branch) -> None:
        """A queue has got something, or has it promised: its share, and that of the queues above it, has changed."""
        self._covered.clear()
        if self._rota is not None:
            self._rota.changed(leaf)


class _Rota:
    """Whose turn it is in one pass of the line: every queue keeps those below it that have somebody waiting in a heap.

    With ``need`` it counts what a queue would have with its next gang, else what it has.
    """

    def __init__(self, tree: QueueTree, policies: Policies, need: Callable[[Waiting], Ints] | None) -> None:
        self._tree = tree
        self._policies = policies
        self._need = need
        self._turns: dict[int, Iterator[Turn]] = {}
        self._heads: dict[int, Turn] = {}
        self._heaps: dict[int, list[tuple[_Key, Branch]]] = defaultdict(list)
        self._keys: dict[int, _Key] = {}
        """The key that counts of every queue; an entry of a heap with another one is out of date."""

    def open(self, gangs: Mapping[QueueName, Iterator[Turn]]) -> None:
        """Let the queues in."""
        for name, turns in gangs.items():
            leaf = self._tree.branches[name]
            self._turns[id(leaf)] = turns
            head = next(turns, None)
            if head is not None:
                self._heads[id(leaf)] = head
                self.changed(leaf)

    def take(self) -> Turn | None:
        """The next in line; ``advance`` says that it has had its turn."""
        return self._next(self._tree.root)

    def advance(self, turn: Turn) -> None:
        """The next of the same queue moves up. It goes on until it gets something: a refusal changes nobody's share."""
        leaf, head = turn.leaf, next(self._turns[id(turn.leaf)], None)
        if head is None:
            del self._heads[id(leaf)]
        else:
            self._heads[id(leaf)] = head
        if head is None or (self._need is not None and head.gang.demand is not turn.gang.demand):
            self.changed(leaf)

    def changed(self, leaf: Branch) -> None:
        """Something about a queue has changed: put it, and those above it, where they belong now."""
        for branch in leaf.path:
            head = self._next(branch)
            if head is None:
                self._keys.pop(id(branch), None)
                continue
            key = self._keys[id(branch)] = self._key(branch, head)
            heappush(self._heaps[id(branch.parent)], (key, branch))

    def _next(self, branch: Branch) -> Turn | None:
        """Whose turn it would be among those of this queue and below."""
        while branch.children:
            heap = self._heaps[id(branch)]
            while heap and self._keys.get(id(heap[0][1])) is not heap[0][0]:
                heappop(heap)
            if not heap:
                return None
            branch = heap[0][1]
        return self._heads.get(id(branch))

    def _key(self, branch: Branch, head: Turn) -> "_Key":
        queue = branch.queue
        if self._need is None:
            share, below = self._tree.share(branch), self._tree.below_guarantee(branch)
        else:
            share, below = self._tree.share(branch, self._need(head.gang)), False
        # Of two that are equal so far, whoever has less all told; the name only makes the order certain.
        rest = (self._tree.use(branch) / queue.weight, queue.name)
        return (*self._policies.queue_order.key(queue, share, below_guarantee=below), *rest)


_Key = tuple[float | str, ...]

_age = attrgetter("age")
