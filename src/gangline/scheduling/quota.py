"""The tree of queues: who has how much, who deserves how much, who may have more.

Three numbers per queue and resource, each a short rule below: the *ceiling* that nothing passes, the *entitlement*
(guarantee plus a weighted part of the rest, whoever asks) and the *deserved* share (the same, but what a queue
does not ask for goes to those who do). Who is next, who gives something up and who grows all follow from the deserved
share, so that nobody gets what somebody else may take back at once. It counts the minimum of every gang that runs or
waits: stopping one, or handing out surplus, changes nobody's share. The cycle owns one tree and books every start and
stop in it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

import numpy as np

from gangline.model import Queue, QueueName
from gangline.model.queue import ROOT_QUEUE
from gangline.scheduling.draft import MANY
from gangline.scheduling.measure import Measure
from gangline.scheduling.table import Bools, Floats, Ints


class Branch:
    """One queue in the tree, with what its jobs (and those of queues below it) use and ask for.

    Of what is ``used``, ``leaving`` will be given back by gangs that are being stopped; ``coming`` is promised to gangs
    for which others are being stopped. ``firm`` is the minimum of all gangs that stay or have a place promised.
    ``scarce`` says of which resources the queues below ask for more than this one deserves. ``past`` is decayed use.
    """

    __slots__ = (
        "asked",
        "ceiling",
        "children",
        "coming",
        "deserved",
        "entitled",
        "firm",
        "guarantee",
        "leaving",
        "parent",
        "past",
        "path",
        "queue",
        "scarce",
        "used",
    )

    def __init__(self, queue: Queue, parent: "Branch | None", measure: Measure) -> None:
        self.queue = queue
        self.parent = parent
        self.children: list[Branch] = []
        self.guarantee = measure.of_amounts(queue.guarantee.amounts())
        self.ceiling = measure.of_limit(queue.limit)
        self.used: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.asked: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.leaving: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.coming: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.firm: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.scarce: Bools = np.zeros(len(measure.names), dtype=np.bool_)
        self.entitled: Ints = self.ceiling
        self.deserved: Ints = self.ceiling
        self.past = 0.0
        self.path: tuple[Branch, ...] = ()
        """This branch and everything above it, the root excluded."""
        if parent is not None:
            parent.children.append(self)
            self.path = (self, *parent.path)

    @property
    def promised(self) -> Ints:
        """What is kept for gangs for which others are being stopped, beyond what those will give back."""
        return np.asarray(np.maximum(self.coming - self.leaving, 0))

    @property
    def own(self) -> Ints:
        """What others may not take from the queue: what it deserves, and its guarantee in any case."""
        return np.asarray(np.maximum(self.deserved, self.guarantee))


class QueueTree:
    """All queues under one root that owns the cluster."""

    def __init__(self, queues: Sequence[Queue], measure: Measure) -> None:
        self.measure = measure
        self.root = Branch(ROOT_QUEUE, None, measure)
        self.branches: dict[QueueName, Branch] = {}
        known = {queue.name: queue for queue in queues or (ROOT_QUEUE,)}
        for name in sorted(known):
            self._grow(known, name, frozenset())
        typed = measure.typed
        self.typed = any((branch.ceiling[typed] < MANY).any() for branch in self.branches.values())
        """Whether any queue limits the GPUs of one type; otherwise nobody need count them."""
        self.limited = any((branch.ceiling < MANY).any() for branch in self.branches.values())
        """Whether any queue has a ceiling at all."""
        self.divided = False
        """Whether there is anybody to share with."""

    def _grow(self, known: Mapping[QueueName, Queue], name: QueueName, below: frozenset[QueueName]) -> Branch:
        if name not in self.branches:
            above = known[name].parent
            # A parent that does not exist, or a circle of parents, makes a top-level queue rather than a lost one.
            lost = above is None or above not in known or above in below | {name}
            parent = self.root if above is None or lost else self._grow(known, above, below | {name})
            if name not in self.branches:
                self.branches[name] = Branch(known[name], parent, self.measure)
        return self.branches[name]

    def leaves(self) -> list[QueueName]:
        """Queues that take jobs."""
        return [name for name, branch in self.branches.items() if not branch.children]

    def nearest(self, name: QueueName) -> QueueName | None:
        """The leaf whose name is most like this one."""
        return next((QueueName(each) for each in get_close_matches(name, self.leaves(), n=1, cutoff=0.0)), None)

    def book(self, leaf: Branch, amounts: Ints) -> None:
        """Count something that a job of this queue has got (or, negative, given back)."""
        for branch in leaf.path:
            branch.used += amounts
        self.root.used += amounts

    def book_seats(self, leaf: Branch, row: Ints, rows: Sequence[int]) -> None:
        """Count replicas that a job of this queue has got on these nodes."""
        self.book(leaf, self.measure.of_rows(row, rows) if self.typed else self.measure.of_count(row, len(rows)))

    def ask(self, leaf: Branch, amounts: Ints) -> None:
        """Count something that a job of this queue wants."""
        for branch in leaf.path:
            branch.asked += amounts

    def hold(self, leaf: Branch, amounts: Ints) -> None:
        """Count the minimum of gangs that stay or get a place."""
        for branch in leaf.path:
            branch.firm += amounts

    def leave(self, leaf: Branch, amounts: Ints, least: Ints | int = 0) -> None:
        """Count something that a job of this queue is about to give back; ``least`` of it is a gang's minimum."""
        for branch in leaf.path:
            branch.leaving += amounts
            branch.firm -= least

    def promise(self, leaf: Branch, amounts: Ints) -> None:
        """Count the place of a job of this queue for which others are giving something up."""
        for branch in leaf.path:
            branch.coming += amounts
            branch.firm += amounts

    def settle(self) -> None:
        """Divide the cluster, from the root down, once everything used and asked for is counted."""
        self.root.deserved = self.root.entitled = self.measure.total
        self.divided = len(self.branches) > 1
        if self.divided or any(not branch.queue.may_borrow for branch in self.branches.values()):
            self._divide(self.root)

    def _divide(self, branch: Branch) -> None:
        if not branch.children:
            return
        demands = [np.minimum(child.firm + child.asked, child.ceiling) for child in branch.children]
        ceilings = [np.minimum(child.ceiling, branch.entitled) for child in branch.children]
        surplus = sum(
            (child.used - child.leaving - child.firm for child in branch.children), np.zeros_like(branch.used)
        )
        branch.scarce = np.asarray(sum(demands, surplus) > branch.deserved)
        for child, deserved, entitled in zip(
            branch.children,
            water_fill(branch.deserved, branch.children, demands),
            water_fill(branch.entitled, branch.children, ceilings),
            strict=True,
        ):
            child.deserved, child.entitled = deserved, entitled
            if not child.queue.may_borrow:
                # A share is of GPUs, whatever their type; only a limit can be about one type.
                counted = slice(0, self.measure.typed.start)
                child.ceiling[counted] = np.minimum(child.ceiling, entitled)[counted]
                self.limited = True
            self._divide(child)

    def covers(self, path: Iterable[Branch], amounts: Ints) -> bool:
        """Whether every one of these queues still has at most its own once a gang of theirs got that much."""
        return not any(
            ((branch.firm + amounts > branch.own) & (amounts > 0) & (branch.parent or self.root).scarce).any()
            for branch in path
        )

    def share(self, branch: Branch, more: Ints | int = 0) -> float:
        """What a queue has (and would have with ``more``) beyond its guarantee, and has had: as a part of the cluster.

        Of several resources the one that it has most of counts, among those that its siblings are short of.
        """
        beyond = self._parts(branch.used + more - branch.guarantee)
        scarce = (branch.parent or self.root).scarce[: len(beyond)]
        return float(np.max(beyond, initial=0.0, where=scarce if scarce.any() else True)) + branch.past

    def use(self, branch: Branch) -> float:
        """The largest part of any resource of the cluster that a queue uses."""
        return float(np.max(self._parts(branch.used), initial=0.0))

    def _parts(self, amounts: Ints) -> Floats:
        counted = slice(0, self.measure.typed.start)
        return np.asarray(amounts[counted] / np.maximum(self.measure.total[counted], 1))

    def below_guarantee(self, branch: Branch) -> bool:
        """Whether the queue has less than it was promised of something that it asks for."""
        return bool(((branch.used < branch.guarantee) & (branch.asked > 0)).any())

    def over_ceiling(
        self, leaf: Branch, amounts: Ints, given: Mapping[int, Ints] | None = None
    ) -> tuple[Branch, dict[str, int]] | None:
        """The lowest queue on the path that would pass its ceiling, and by how much of what.

        With ``given`` it is about the time when all who leave are gone, and so is what queues (by the identity of the
        branch) would give up besides.
        """
        if not self.limited:
            return None
        for branch in leaf.path:
            if given is None:
                over = branch.used + branch.promised + amounts - branch.ceiling
            else:
                later = branch.used - branch.leaving + branch.coming - given.get(id(branch), 0)
                over = later + amounts - branch.ceiling
            wrong = (over > 0) & (amounts > 0)
            if wrong.any():
                return branch, {self.measure.names[i]: int(over[i]) for i in np.flatnonzero(wrong)}
        return None

    def headroom(self, leaf: Branch, row: Ints) -> int:
        """How many more replicas of this size the ceilings allow."""
        amounts = self.measure.of_count(row, 1)
        asked = amounts > 0
        rooms = [
            ((branch.ceiling - branch.used - branch.promised)[asked] // amounts[asked]).min(initial=MANY)
            for branch in leaf.path
        ]
        return int(max(min(rooms), 0))

    def open_types(self, leaf: Branch, gpu_millis: int) -> Bools | None:
        """Nodes whose GPU type every queue on the path has this much left of; None when all are open."""
        mask: Bools | None = None
        for _, number, _ in self.closed_types(leaf, gpu_millis):
            others = self.measure.gpu_types != number
            mask = others if mask is None else mask & others
        return mask

    def closed_types(self, leaf: Branch, gpu_millis: int) -> Iterator[tuple[Branch, int, int]]:
        """Queues on the path that have less than this left of a GPU type: which queue, which type, how much less."""
        if not self.typed:
            return
        for branch in leaf.path:
            short = gpu_millis - (branch.ceiling - branch.used)[self.measure.typed]
            for number in np.flatnonzero(short > 0).tolist():
                yield branch, number, int(short[number])


def water_fill(available: Ints, branches: Sequence[Branch], demands: Sequence[Ints]) -> list[Ints]:
    """Divide what is available: guarantees first, then by weight, nobody more than it demands.

    Done per resource. When guarantees exceed what is there, they shrink in proportion.
    """
    weights = np.array([branch.queue.weight for branch in branches], dtype=np.float64)
    wanted = np.stack(demands).astype(np.float64)
    level = np.minimum(np.stack([branch.guarantee for branch in branches]), wanted)
    promised = level.sum(axis=0)
    level = level * np.minimum(1.0, available / np.maximum(promised, 1.0))
    for _ in branches:
        left = np.maximum(available - level.sum(axis=0), 0.0)
        thirsty = (wanted - level > 1e-9) * weights[:, None]
        total = thirsty.sum(axis=0)
        step = np.where(total > 0, thirsty * left / np.maximum(total, 1.0), 0.0)
        level = np.minimum(level + step, wanted)
    return [np.floor(row + 1e-6).astype(np.int64) for row in level]
