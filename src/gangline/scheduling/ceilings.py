"""What is told to a gang that may not have what it asks for, whatever is free: ceilings, and what others keep."""

from gangline.model import Job
from gangline.model.explanation import Constraint, Explanation
from gangline.scheduling.nodes.table import Ints
from gangline.scheduling.queues.ordering import Turn
from gangline.scheduling.queues.quota import Branch, Excess, QueueTree, is_fixed
from gangline.scheduling.reasons import HOLDERS_SHOWN
from gangline.scheduling.snapshot import Snapshot


class Ceilings:
    """Explains what the queues of one cycle may not have."""

    def __init__(self, tree: QueueTree, snapshot: Snapshot) -> None:
        self._tree = tree
        self._snapshot = snapshot

    def not_guaranteed(self, amounts: Ints, beyond: Excess) -> Explanation:
        """It may not be stopped, and a queue takes such gangs only within its guarantee."""
        branch, constraint = beyond.branch, Constraint.NOT_GUARANTEED
        guarantee = dict(zip(self._tree.measure.names, self._tree.fixable(branch).tolist(), strict=True))
        asked = dict(zip(self._tree.measure.names, amounts.tolist(), strict=True))
        if too_much := [name for name in beyond.missing if asked[name] > guarantee[name]]:
            missing = {name: asked[name] - guarantee[name] for name in too_much}
            at_most = {name: guarantee[name] for name in too_much}
            return Explanation(constraint=constraint, queue=branch.queue.name, missing=missing, at_most=at_most)
        return self.held_back(constraint, branch, beyond.missing, fixed=True)

    def kept_by_others(self, turn: Turn, branch: Branch, missing: dict[str, int]) -> Explanation:
        """Others lend no more of what they are guaranteed."""
        keeper = self._tree.keeper(turn.leaf, branch, next(iter(missing)))
        return Explanation(constraint=Constraint.LENDING_LIMIT, queue=keeper.queue.name, missing=missing)

    def over_type(self, turn: Turn, gpu_millis: int) -> Explanation:
        """It would fit, but only on GPUs of a type of which its queue (or one above it) may have no more."""
        closed = list(self._tree.closed_types(turn.leaf, turn.gang.job, gpu_millis))
        names = self._tree.measure.names[self._tree.measure.typed]
        missing = {names[each.number]: each.short for each in reversed(closed)}
        if closed[0].kept:
            return self.kept_by_others(turn, closed[0].branch, {names[closed[0].number]: closed[0].short})
        if closed[0].fixed:
            amounts = self._tree.measure.of_type(
                self._tree.measure.of_amounts({"gpu_millis": gpu_millis}), closed[0].number
            )
            return self.not_guaranteed(amounts, Excess(closed[0].branch, missing))
        own = [
            names[each.number] for each in closed if each.branch is closed[0].branch and not (each.kept or each.fixed)
        ]
        return self.held_back(self._tree.ceiling_of(closed[0].branch, own), closed[0].branch, missing)

    def held_back(
        self,
        constraint: Constraint,
        branch: Branch,
        missing: dict[str, int],
        helps: tuple[str, ...] = (),
        *,
        fixed: bool = False,
    ) -> Explanation:
        """Others of a queue have what the gang would need; ``fixed``: those of them that may not be stopped."""
        held = (each for each in self._snapshot.held.values() if not fixed or is_fixed(each.job))
        holders = sorted({each.owner for each in held if self._is_below(each.job, branch)})
        shown = tuple(holders[:HOLDERS_SHOWN])
        return Explanation(constraint=constraint, queue=branch.queue.name, missing=missing, holders=shown, helps=helps)

    def _is_below(self, job: Job, branch: Branch) -> bool:
        leaf = self._tree.branches.get(job.spec.queue)
        return leaf is not None and any(each is branch for each in leaf.path)
