"""The line of waiting gangs: nominated ones first, then the queues in turn, each in its own order.

Where queues share, the line passes three times. First come gangs that the share of their queue covers, from the queue
that has least. Then those that it covers once less important gangs of the queue make way, each followed by whoever is
less important than it: in a queue the small do not slip past the important. Then those beyond it, from the queue that
would have least; if somebody has made way, those come first that the share of their queue covers by now. So nobody gets
what somebody else in line may take back at once.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from gangline.model import JobId, QueueName, Timestamp
from gangline.scheduling.gangs.holdings import Held, Waiting
from gangline.scheduling.nodes.table import Ints
from gangline.scheduling.plugins.interface import SharedOrder
from gangline.scheduling.plugins.orders import size_of
from gangline.scheduling.policies import Policies
from gangline.scheduling.queues.quota import Branch, QueueTree


class Turn(NamedTuple):
    """A gang whose turn it is, its queue, and how important it is there (the lower the more)."""

    gang: Waiting
    leaf: Branch
    rank: float


class WaitingLine:
    """Hands out waiting gangs one by one; which queue is next depends on what was booked before."""

    def __init__(
        self,
        tree: QueueTree,
        policies: Policies,
        now: Timestamp,
        *,
        yielding: "Callable[[Branch, float], Ints | int] | None" = None,
        held: Iterable[Held] = (),
        last: Collection[JobId] = (),
    ) -> None:
        """``yielding``: what gangs of a queue have at least that are less important than a rank. With it, gangs that
        the share of their queue covers come first; without, nobody's share is too small. Those in ``last`` come with
        the gangs beyond their share, whether it covers them or not."""
        self._tree = tree
        self._policies = policies
        self._now = now
        self._yielding = yielding
        self._held = held
        self._last = last
        order = policies.job_order
        self._party = order.party if isinstance(order, SharedOrder) else None
        self._gangs: dict[QueueName, Iterator[Turn]] = {}
        self._behind: dict[QueueName, list[Turn]] = defaultdict(list)
        """For whom others of their queue would have to make way, and who is less important than they."""
        self._beyond: dict[QueueName, list[Turn]] = defaultdict(list)
        self._covered: dict[int, dict[tuple[QueueName, int, float | None], bool]] = defaultdict(dict)
        """What is known of the gangs of every top-level queue, since what one gets does not change others' shares."""
        self.nominated: list[Turn] = []
        """Those who come before everybody else; iterating over the line has the rest."""
        self._round_robin: _RoundRobin | None = None
        self._left = False
        """Whether anybody has made way for others."""

    def fill(self, gangs: Iterable[Waiting], nominated: Iterable[JobId] = ()) -> None:
        """Let everybody in; each must belong to a leaf of the tree."""
        owed = {job_id: number for number, job_id in enumerate(nominated)}
        by_queue: dict[QueueName, dict[float, list[Waiting]]] = defaultdict(lambda: defaultdict(list))
        rank, now = self._policies.job_order.rank, self._now
        for gang in gangs:
            job = gang.job
            if job.id in owed:
                self.nominated.append(Turn(gang, self._tree.branches[job.spec.queue], rank(job, now)))
            else:
                by_queue[job.spec.queue][rank(job, now)].append(gang)
        self.nominated.sort(key=lambda turn: owed[turn.gang.job.id])
        self._gangs = {name: self._in_order(self._tree.branches[name], ranks) for name, ranks in by_queue.items()}

    def follow(self, turns: Mapping[QueueName, Iterator[Turn]]) -> None:
        """Let in queues that see to their own order."""
        self._gangs = dict(turns)

    def _in_order(self, leaf: Branch, ranks: Mapping[float, list[Waiting]]) -> Iterator[Turn]:
        """The gangs of one queue. A hundred thousand may wait, so nothing is made for those nobody gets to."""
        key, now = self._policies.job_order.key, self._now
        for rank in sorted(ranks):
            members = ranks[rank]
            members.sort(key=_age)
            members.sort(key=lambda gang: key(gang.job, now))
            for gang in self._in_turn(leaf, members):
                yield Turn(gang, leaf, rank)

    def _in_turn(self, leaf: Branch, members: list[Waiting]) -> list[Waiting]:
        """Whoever has least in the queue first: what runs counts, and so does what stands before in this order."""
        party = self._party
        if party is None or len({party(gang.job) for gang in members}) < 2:
            return members
        has: dict[str, float] = defaultdict(float)
        for held in self._held:
            if held.job.spec.queue == leaf.queue.name:
                has[party(held.job)] += size_of(held.job)
        places: dict[JobId, float] = {}
        for gang in members:
            places[gang.job.id] = has[party(gang.job)]
            has[party(gang.job)] += size_of(gang.job)
        return sorted(members, key=lambda gang: places[gang.job.id])

    def __iter__(self) -> Iterator[Turn]:
        if not self._tree.divided:
            yield from chain.from_iterable(self._gangs.values())
            return
        if self._yielding is None:
            yield from self._pass(self._gangs)
            return
        yield from self._pass(self._gangs, defers=self._covered_later)
        yield from self._pass(_turns(self._behind), defers=self._not_covered)
        if self._left:
            # Whoever was stopped counts against its queue no longer, so the share may cover others of it by now.
            again, self._beyond = self._beyond, defaultdict(list)
            yield from self._pass(_turns(again), defers=self._not_covered)
        yield from self._pass(_turns(self._beyond), with_next=True)

    def _pass(
        self,
        gangs: Mapping[QueueName, Iterator[Turn]],
        *,
        defers: "Callable[[Turn], dict[QueueName, list[Turn]] | None] | None" = None,
        with_next: bool = False,
    ) -> Iterator[Turn]:
        self._round_robin = round_robin = _RoundRobin(self._tree, self._policies, with_next=with_next)
        round_robin.open(gangs)
        while (turn := round_robin.take()) is not None:
            later = None if defers is None else defers(turn)
            if later is None:
                yield turn
            else:
                later[turn.leaf.queue.name].append(turn)
            round_robin.advance(turn)

    def _covered_later(self, turn: Turn) -> dict[QueueName, list[Turn]] | None:
        """Where a gang waits that does not come in the first pass."""
        if turn.gang.job.id in self._last:
            return self._beyond
        first = self._behind.get(turn.leaf.queue.name)
        if first and turn.rank > first[0].rank:
            return self._behind
        if self._is_covered(turn):
            return None
        return self._behind if self._is_covered(turn, without_lesser=True) else self._beyond

    def _not_covered(self, turn: Turn) -> dict[QueueName, list[Turn]] | None:
        """The same of the second pass."""
        covered = self._is_covered(turn) or self._is_covered(turn, without_lesser=True)
        return None if covered and turn.gang.job.id not in self._last else self._beyond

    def _is_covered(self, turn: Turn, *, without_lesser: bool = False) -> bool:
        """Whether the share of its queue, and of those above, is enough for a gang now that its turn has come.

        ``without_lesser``: once less important gangs of its queue have made way.
        """
        asked = (turn.leaf.queue.name, id(turn.gang.demand), turn.rank if without_lesser else None)
        covered = self._covered[id(turn.leaf.path[-1])]
        known = covered.get(asked)
        if known is None:
            given = self._yielding(turn.leaf, turn.rank) if without_lesser and self._yielding is not None else 0
            wants, path = self._tree.wants(turn.gang.demand), turn.leaf.path
            nobody = without_lesser and isinstance(given, int)
            known = not nobody and any(self._tree.covers(path, each, given) for each in wants)
            covered[asked] = known
        return known

    def served(self, leaf: Branch, *, by_others: bool = False) -> None:
        """A queue has got something, or has it promised: its share, and that of the queues above it, has changed.

        ``by_others``: others make way for it.
        """
        self._covered[id(leaf.path[-1])].clear()
        if by_others:
            self._covered.clear()
            self._left = True
        if self._round_robin is not None:
            self._round_robin.changed(leaf)


class _RoundRobin:
    """Whose turn it is in one pass of the line: every queue keeps those below it that have somebody waiting in a heap.

    ``with_next``: it counts what a queue would have with its next gang, else what it has.
    """

    def __init__(self, tree: QueueTree, policies: Policies, *, with_next: bool) -> None:
        self._tree = tree
        self._policies = policies
        self._with_next = with_next
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
        if head is None or (self._with_next and head.gang.demand is not turn.gang.demand):
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
        if self._with_next:
            share, below = self._tree.share(branch, self._tree.wants(head.gang.demand)[0]), False
        else:
            share, below = self._tree.share(branch), self._tree.below_guarantee(branch)
        # Of two that are equal so far, whoever has less all told; the name only makes the order certain.
        rest = (self._tree.use(branch) / queue.weight, queue.name)
        return (*self._policies.queue_order.key(queue, share, below_guarantee=below), *rest)


_Key = tuple[float | str, ...]


def _turns(deferred: Mapping[QueueName, list[Turn]]) -> dict[QueueName, Iterator[Turn]]:
    # Those deferred by the second pass come after those that the first deferred, however important they are.
    return {name: iter(sorted(turns, key=attrgetter("rank"))) for name, turns in deferred.items()}


_age = attrgetter("age")
