"""What queues must give up so that a gang of theirs may have a place: at a ceiling, or within their share."""

from collections.abc import Sequence

from gangline.scheduling.nodes.table import Ints
from gangline.scheduling.preemption.victims import Unit
from gangline.scheduling.queues.ordering import Turn
from gangline.scheduling.queues.quota import Branch, QueueTree


class Relief:
    """What is given up so that a gang passes no ceiling on its path, and whether that is enough."""

    def __init__(self, tree: QueueTree, turn: Turn, amounts: Ints) -> None:
        self._tree = tree
        self._turn = turn
        self._amounts = amounts
        self._units: list[Unit] = []
        self._given: dict[int, Ints] = {}
        self._surplus: list[Unit] = []
        """Of gangs that may be given up whole: their surplus goes with them."""
        self.lacking = self._over({})

    def add(self, unit: Unit) -> None:
        """Give up a unit if it counts against what is in the way."""
        if self.lacking is None:
            return
        if not unit.whole:
            self._surplus.append(unit)
        if self._counts(unit, self.lacking):
            self._units.append(unit)
            self._count(self._given, unit, 1)
            self.lacking = self._over(self._given)

    def needed(self) -> tuple[Unit, ...]:
        """What must be given up after all: without the dearest units that turned out not to matter."""
        for unit in sorted(self._units, key=lambda each: -each.weight):
            self._count(self._given, unit, -1)
            if self._over(self._given) is None:
                self._units.remove(unit)
            else:
                self._count(self._given, unit, 1)
        stopped = {unit.gang.job.id for unit in self._units if unit.whole}
        known = set(map(id, self._units))
        more = (unit for unit in self._surplus if unit.gang.job.id in stopped and id(unit) not in known)
        return (*self._units, *more)

    def is_met(self, units: Sequence[Unit]) -> bool:
        """Whether the gang passes nothing once just these are given up."""
        given: dict[int, Ints] = {}
        for unit in units:
            self._count(given, unit, 1)
        return self._over(given) is None

    def given(self, units: Sequence[Unit]) -> Ints | int:
        """What these units take off the share of the gang's own queue."""
        del units
        return 0

    def _counts(self, unit: Unit, lacking: Branch) -> bool:
        return lacking in self._path(unit)

    def _count(self, given: dict[int, Ints], unit: Unit, sign: int) -> None:
        for branch in self._path(unit):
            given[id(branch)] = given.get(id(branch), 0) + sign * unit.amounts

    def _over(self, given: dict[int, Ints]) -> Branch | None:
        found = self._tree.over_ceiling(self._turn.leaf, self._amounts, given)
        return None if found is None else found.branch

    def _path(self, unit: Unit) -> tuple[Branch, ...]:
        return (*self._tree.branches[unit.gang.job.spec.queue].path, self._tree.root)


class ShareRelief(Relief):
    """The same so that the share of its queue covers a gang: less important gangs of that queue make way for it."""

    def given(self, units: Sequence[Unit]) -> Ints | int:
        """The minimum of gangs of the queue that stop."""
        return sum((unit.amounts for unit in units if self._counts(unit, self._turn.leaf)), 0)

    def _counts(self, unit: Unit, lacking: Branch) -> bool:
        del lacking
        return unit.whole and unit.gang.job.spec.queue == self._turn.leaf.queue.name

    def _count(self, given: dict[int, Ints], unit: Unit, sign: int) -> None:
        if self._counts(unit, self._turn.leaf):
            leaf = id(self._turn.leaf)
            given[leaf] = given.get(leaf, 0) + sign * unit.amounts

    def _over(self, given: dict[int, Ints]) -> Branch | None:
        leaf = self._turn.leaf
        return None if self._tree.covers(leaf.path, self._amounts, given.get(id(leaf), 0)) else leaf
