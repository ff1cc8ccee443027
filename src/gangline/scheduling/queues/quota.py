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
from typing import NamedTuple

import numpy as np

from gangline.model import Job, Queue, QueueName
from gangline.model.explanation import Constraint
from gangline.model.kinds.queue import ROOT_QUEUE
from gangline.model.resources import TYPED_GPU
from gangline.scheduling.demand.shapes import Demand
from gangline.scheduling.nodes.draft import MANY
from gangline.scheduling.nodes.measure import Measure
from gangline.scheduling.nodes.table import GPU, Bools, Floats, Ints


class Branch:
    """One queue in the tree, with what its jobs (and those of queues below it) use and ask for.

    Of what is ``used``, ``leaving`` will be given back by gangs that are being stopped; ``coming`` is promised to gangs
    for which others are being stopped. ``firm`` is the minimum of all gangs that stay or have a place promised.
    ``scarce`` says of which resources the queues below ask for more than this one deserves. ``past`` is decayed use.
    ``kept`` is the part of the guarantee that is not lent, ``keepers`` are those below that keep something, and
    ``fixed`` is held by gangs that may not be stopped.
    """

    __slots__ = (
        "asked",
        "ceiling",
        "children",
        "coming",
        "deserved",
        "entitled",
        "firm",
        "fixed",
        "guarantee",
        "guaranteed",
        "keepers",
        "kept",
        "leaving",
        "parent",
        "past",
        "path",
        "promises",
        "queue",
        "scarce",
        "used",
    )

    def __init__(self, queue: Queue, parent: "Branch | None", measure: Measure) -> None:
        self.queue = queue
        self.parent = parent
        self.children: list[Branch] = []
        self.guarantee = measure.of_guarantee(queue.guarantee)
        self.guaranteed = bool(self.guarantee.any())
        self.ceiling = measure.of_limit(queue.limit)
        if queue.borrowing_limit is not None:
            self.ceiling = np.minimum(self.ceiling, self.guarantee + measure.of_limit(queue.borrowing_limit))
        self.kept: Ints = np.zeros(len(measure.names), dtype=np.int64)
        if queue.lending_limit is not None:
            self.kept = np.maximum(self.guarantee - measure.of_limit(queue.lending_limit), 0)
        self.keepers: list[Branch] = []
        self.fixed: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.used: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.asked: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.leaving: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.coming: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.firm: Ints = np.zeros(len(measure.names), dtype=np.int64)
        self.scarce: Bools = np.zeros(len(measure.names), dtype=np.bool_)
        self.entitled: Ints = self.ceiling
        self.deserved: Ints = self.ceiling
        self.past = 0.0
        self.promises = False
        self.path: tuple[Branch, ...] = ()
        """This branch and everything above it, the root excluded."""
        if parent is not None:
            parent.children.append(self)
            self.path = (self, *parent.path)
            if queue.lending_limit is not None:
                for branch in self.path:
                    if branch.parent is not None and branch not in branch.parent.keepers:
                        branch.parent.keepers.append(branch)

    @property
    def promised(self) -> Ints:
        """What is kept for gangs for which others are being stopped, beyond what those will give back."""
        return np.asarray(np.maximum(self.coming - self.leaving, 0))

    @property
    def own(self) -> Ints:
        """What others may not take from the queue: what it deserves, and its guarantee in any case."""
        return np.asarray(np.maximum(self.deserved, self.guarantee)) if self.guaranteed else self.deserved


class QueueTree:
    """All queues under one root that owns the cluster."""

    def __init__(self, queues: Sequence[Queue], measure: Measure) -> None:
        self.measure = measure
        self._whole = np.maximum(measure.total[: measure.typed.start], 1)
        self.root = Branch(ROOT_QUEUE, None, measure)
        self.branches: dict[QueueName, Branch] = {}
        known = {queue.name: queue for queue in queues or (ROOT_QUEUE,)}
        for name in sorted(known):
            self._grow(known, name, frozenset())
        typed, branches = measure.typed, self.branches.values()
        self.shares_types = any(branch.guarantee[typed].any() for branch in branches)
        """Whether any queue is guaranteed GPUs of one type; otherwise a share is of GPUs, whatever their type."""
        self.typed = self.shares_types or any((branch.ceiling[typed] < MANY).any() for branch in branches)
        """Whether the GPUs of one type matter to any queue; otherwise nobody need count them."""
        self.limited = any((branch.ceiling < MANY).any() or branch.kept.any() for branch in branches)
        """Whether any queue has a ceiling at all, or keeps something from the others."""
        self.fixes = any(queue.non_preemptible_within_guarantee for queue in known.values())
        """Whether any queue takes gangs that may not be stopped only within its guarantee."""
        self._wants: dict[int, tuple[Demand, tuple[Ints, ...]]] = {}
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

    def book_seats(self, leaf: Branch, row: Ints, rows: Sequence[int]) -> Ints:
        """Count replicas that a job of this queue has got on these nodes; return what they use."""
        amounts = self.measure.of_rows(row, rows) if self.typed else self.measure.of_count(row, len(rows))
        self.book(leaf, amounts)
        return amounts

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
        for branch in (*leaf.path, self.root):
            branch.leaving += amounts
            branch.firm -= least

    def promise(self, leaf: Branch, amounts: Ints) -> None:
        """Count the place of a job of this queue for which others are giving something up."""
        for branch in (*leaf.path, self.root):
            branch.coming += amounts
            branch.firm += amounts
            branch.promises = True

    def fix(self, leaf: Branch, amounts: Ints) -> None:
        """Count something that a gang has, or has promised, which may not be stopped."""
        for branch in leaf.path:
            branch.fixed += amounts

    def settle(self) -> None:
        """Divide the cluster, from the root down, once everything used and asked for is counted."""
        self.root.deserved = self.root.entitled = self.measure.total
        self.divided = len(self.branches) > 1
        if self.divided or any(not branch.queue.may_borrow for branch in self.branches.values()):
            self._divide(self.root)

    def _divide(self, branch: Branch) -> None:
        if not branch.children:
            return
        # What a queue does not lend is nobody else's, whether or not it is asked for.
        demands = [
            np.maximum(np.minimum(child.firm + child.asked, child.ceiling), child.kept) for child in branch.children
        ]
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
                counted = slice(0, None if self.shares_types else self.measure.typed.start)
                child.ceiling[counted] = np.minimum(child.ceiling, entitled)[counted]
                self.limited = True
            self._divide(child)

    def covers(self, path: Iterable[Branch], amounts: Ints, given: Ints | int = 0) -> bool:
        """Whether every one of these queues still has at most its own once a gang of theirs got that much.

        ``given`` is the minimum of gangs of theirs that would make way for it.
        """
        asked = amounts > 0
        for branch in path:
            if ((branch.firm + amounts - given > branch.own) & asked & (branch.parent or self.root).scarce).any():
                return False
        return True

    def share(self, branch: Branch, more: Ints | int = 0) -> float:
        """What a queue has (and would have with ``more``) beyond its guarantee, and has had: as a part of the cluster.

        Of several resources the one that it has most of counts, among those that its siblings are short of.
        """
        beyond = self._parts(branch.used + more - branch.guarantee)
        scarce = (branch.parent or self.root).scarce[: len(beyond)]
        return float(beyond.max(initial=0.0, where=scarce if scarce.any() else True)) + branch.past

    def use(self, branch: Branch) -> float:
        """The largest part of any resource of the cluster that a queue uses."""
        return self.part(branch.used)

    def part(self, amounts: Ints) -> float:
        """The largest part of any resource of the cluster."""
        return float(self._parts(amounts).max(initial=0.0))

    def _parts(self, amounts: Ints) -> Floats:
        return np.asarray(amounts[: len(self._whole)] / self._whole)

    def below_guarantee(self, branch: Branch) -> bool:
        """Whether the queue has less than it was promised of something that it asks for."""
        return branch.guaranteed and bool(((branch.used < branch.guarantee) & (branch.asked > 0)).any())

    def wants(self, demand: Demand) -> tuple[Ints, ...]:
        """What a gang asks for; where queues are guaranteed types of GPUs, once for each type that would do."""
        known = self._wants.get(id(demand))
        if known is None:
            plain = self.measure.of_amounts(demand.total())
            types = demand.gpu_types() if self.shares_types else ()
            names = self.measure.names[self.measure.typed]
            numbers = [names.index(TYPED_GPU + name) for name in types if TYPED_GPU + name in names]
            wants = tuple(self.measure.of_type(plain, number) for number in numbers) or (plain,)
            known = self._wants[id(demand)] = (demand, wants)
        return known[1]

    def over_ceiling(self, leaf: Branch, amounts: Ints, given: Mapping[int, Ints] | None = None) -> "Excess | None":
        """What of these amounts is too much, for the lowest queue on the path that it is too much for.

        With ``given`` it is about the time when all who leave are gone, and so is what queues (by the identity of the
        branch) would give up besides.
        """
        if not self.limited:
            return None
        for branch, kept, room in self._rooms(leaf, given):
            wrong = (amounts > room) & (amounts > 0)
            if wrong.any():
                missing = {self.measure.names[i]: int(amounts[i] - room[i]) for i in np.flatnonzero(wrong)}
                return Excess(branch, missing, kept=kept)
        return None

    def ceiling_of(self, branch: Branch, missing: Iterable[str]) -> Constraint:
        """What kind of ceiling a queue is at: a limit, what it may borrow, or its share if it may not borrow."""
        columns = [self.measure.names.index(name) for name in missing]
        queue, ceiling = branch.queue, branch.ceiling[columns]
        if not (ceiling < self.measure.of_limit(queue.limit)[columns]).any():
            return Constraint.QUEUE_LIMIT
        borrowed = branch.guarantee + self.measure.of_limit(queue.borrowing_limit)
        return Constraint.QUEUE_SHARE if (ceiling < borrowed[columns]).any() else Constraint.BORROWING_LIMIT

    def _rooms(self, leaf: Branch, given: Mapping[int, Ints] | None = None) -> Iterator[tuple[Branch, bool, Ints]]:
        """How much more a queue may get: below each ceiling on its path, and of what others do not keep for themselves.

        Said for each queue on the path (or the root); the flag tells the latter from the former.
        """
        for branch in leaf.path:
            yield branch, False, branch.ceiling - _level(branch, given)
        if not self.root.keepers:
            return
        own: Ints = np.zeros_like(leaf.used)
        for branch in leaf.path:
            above = branch.parent or self.root
            # What is kept for the queue itself comes first; only beyond that does it need what is left to all.
            own = own + np.maximum(branch.kept - _level(branch, given) - _withheld(branch, given), 0)
            withheld = np.asarray(_withheld(above, given))
            whole = self.measure.total if above is self.root else above.ceiling
            left = np.maximum(whole - _level(above, given) - withheld, 0)
            yield above, True, np.where(withheld > own, own + left, MANY)

    def keeper(self, leaf: Branch, above: Branch, name: str) -> Branch:
        """The queue below another one that keeps most of a resource from this one."""
        column = self.measure.names.index(name)
        others = [each for each in self.branches.values() if above in (*each.path, self.root) and each not in leaf.path]
        return max(others, key=lambda each: int((each.kept - _level(each, None))[column]))

    def headroom(self, leaf: Branch, row: Ints, *, fixed: bool = False) -> int:
        """How many more replicas of this size the queue may have; ``fixed``: of a gang that may not be stopped."""
        amounts = self.measure.of_count(row, 1)
        asked = amounts > 0
        rooms = [room for _, _, room in self._rooms(leaf)]
        if fixed:
            rooms += [self.fixable(branch) - branch.fixed for branch in leaf.path if _takes_fixed_only_within(branch)]
        return int(max(min((room[asked] // amounts[asked]).min(initial=MANY) for room in rooms), 0))

    def beyond_guarantee(self, leaf: Branch, job: Job, amounts: Ints) -> "Excess | None":
        """What a gang that may not be stopped would have beyond a guarantee that all of its kind must fit in."""
        if not self.fixes or not is_fixed(job):
            return None
        for branch in filter(_takes_fixed_only_within, leaf.path):
            over = branch.fixed + amounts - self.fixable(branch)
            over[self.measure.typed] = 0  # of types it may have several; see ``closed_types``
            wrong = (over > 0) & (amounts > 0)
            if wrong.any():
                return Excess(branch, {self.measure.names[i]: int(over[i]) for i in np.flatnonzero(wrong)})
        return None

    def open_types(self, leaf: Branch, job: Job, gpu_millis: int) -> Bools | None:
        """Nodes whose GPU type every queue on the path has this much left of; None when all are open."""
        mask: Bools | None = None
        for closed in self.closed_types(leaf, job, gpu_millis):
            others = self.measure.gpu_types != closed.number
            mask = others if mask is None else mask & others
        return mask

    def closed_types(self, leaf: Branch, job: Job, gpu_millis: int) -> "Iterator[ClosedType]":
        """Types of GPUs of which some queue on the path may have less than this."""
        if not self.typed:
            return
        rooms = [(branch, room[self.measure.typed], kept, False) for branch, kept, room in self._rooms(leaf)]
        if self.fixes and is_fixed(job):
            bound = filter(_takes_fixed_only_within, leaf.path)
            rooms += [(each, (self.fixable(each) - each.fixed)[self.measure.typed], False, True) for each in bound]
        for branch, room, kept, fixed in rooms:
            for number in np.flatnonzero(gpu_millis > room).tolist():
                yield ClosedType(branch, number, gpu_millis - int(room[number]), kept=kept, fixed=fixed)

    def fixable(self, branch: Branch) -> Ints:
        """What gangs that may not be stopped may have: of each GPU type what is guaranteed of it, or of no type."""
        most, typed = branch.guarantee.copy(), self.measure.typed
        most[typed] += most[GPU] - most[typed].sum()
        return most


class Excess(NamedTuple):
    """What a queue may not have: which queue, by how much of what, and whether others below it keep it."""

    branch: Branch
    missing: dict[str, int]
    kept: bool = False


class ClosedType(NamedTuple):
    """A GPU type of which a queue may have too little: the queue, the type, and how much less.

    Others keep it, or less of it is guaranteed to gangs that may not be stopped, or the queue is at a ceiling.
    """

    branch: Branch
    number: int
    short: int
    kept: bool
    fixed: bool


def _level(branch: Branch, given: Mapping[int, Ints] | None) -> Ints:
    """What a queue has and has promised; or what it will have once all are gone who leave or are given up."""
    if given is None:
        return branch.used + branch.promised if branch.promises else branch.used
    return np.asarray(branch.used - branch.leaving + branch.coming - given.get(id(branch), 0))


def _withheld(branch: Branch, given: Mapping[int, Ints] | None) -> Ints | int:
    """What queues below this one keep for themselves and do not use."""
    kept: Ints | int = 0
    for below in branch.keepers:
        inside = _withheld(below, given)
        kept = kept + np.maximum(below.kept - _level(below, given), inside)
    return kept


def is_fixed(job: Job) -> bool:
    """Whether some of a gang may not be stopped, so that all of it stays."""
    return not all(map(job.spec.is_preemptible, job.spec.roles))


def _takes_fixed_only_within(branch: Branch) -> bool:
    return branch.queue.non_preemptible_within_guarantee


def water_fill(available: Ints, branches: Sequence[Branch], demands: Sequence[Ints]) -> list[Ints]:
    """Divide what is available: guarantees first, then by priority, then by weight, nobody more than it demands.

    Done per resource. When guarantees exceed what is there, they shrink in proportion.
    """
    weights = np.array([branch.queue.weight for branch in branches], dtype=np.float64)
    priorities = np.array([branch.queue.priority for branch in branches])
    wanted = np.stack(demands).astype(np.float64)
    level = np.minimum(np.stack([branch.guarantee for branch in branches]), wanted)
    promised = level.sum(axis=0)
    level = level * np.minimum(1.0, available / np.maximum(promised, 1.0))
    for priority in sorted(set(priorities.tolist()), reverse=True):
        level = _fill(level, available, wanted, np.where(priorities == priority, weights, 0.0))
    return [np.floor(row + 1e-6).astype(np.int64) for row in level]


def _fill(level: Floats, available: Ints, wanted: Floats, weights: Floats) -> Floats:
    """Divide what is left by weight until it is gone, or nobody who has a weight wants more."""
    for _ in range(np.count_nonzero(weights)):
        left = np.maximum(available - level.sum(axis=0), 0.0)
        unsatisfied = (wanted - level > 1e-9) * weights[:, None]
        total = unsatisfied.sum(axis=0)
        if not ((total > 0) & (left > 0)).any():
            break
        step = np.where(total > 0, unsatisfied * left / np.maximum(total, 1.0), 0.0)
        level = np.minimum(level + step, wanted)
    return level
