"""What running gangs of one queue give each other, so that nobody has more forever because it came first.

Called when all is handed out and nobody waits. A replica changes hands only if the one that gets it can use the very
place, and only between replicas that ask for the same; whoever gives has no less than the other afterwards, so nothing
goes to and fro.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gangline.model import JobId, QueueName, ReplicaId
from gangline.scheduling.decision import Shrink
from gangline.scheduling.demand.shapes import RoleDemand
from gangline.scheduling.gangs.holdings import HeldRole
from gangline.scheduling.nodes.domains import both
from gangline.scheduling.placement.placer import Placer
from gangline.scheduling.preemption.reservation import Reservations
from gangline.scheduling.preemption.victims import surplus
from gangline.scheduling.queues.quota import QueueTree
from gangline.scheduling.surplus import Claimant, Surplus

TRANSFERS = 1000
"""Replicas that change hands in one cycle at most."""


class Balance:
    """One cycle's transfers."""

    def __init__(self, reservations: Reservations, tree: QueueTree, shared: Surplus) -> None:
        self._reservations = reservations
        self._tree = tree
        self._shared = shared
        self._surplus: dict[JobId, list[HeldRole]] = {}
        self._removed: dict[JobId, list[ReplicaId]] = defaultdict(list)
        self._takers: dict[JobId, Claimant] = {}

    def shrinks(self) -> Iterator[Shrink]:
        """What those who have most give up."""
        by_queue: dict[QueueName, list[Claimant]] = defaultdict(list)
        for each in self._shared.claimants.values():
            if each.held is not None and not each.gained:
                each.full.clear()
                by_queue[each.turn.leaf.queue.name].append(each)
                # The replica to go first is the last one.
                self._surplus[each.turn.gang.job.id] = list(surplus(each.held))[::-1]
        clearing = self._reservations.clearing(reserved=False)
        mark, left = clearing.mark(), TRANSFERS
        for members in by_queue.values():
            while len(members) > 1 and left and self._transfer(members, clearing.placer):
                left -= 1
        clearing.undo(mark)
        for job_id, removed in self._removed.items():
            reason = f"surplus given to '{self._takers[job_id].turn.gang.job.name}', which has less"
            yield Shrink(job_id=job_id, removed=tuple(sorted(removed)), beneficiary=None, reason=reason)

    def _transfer(self, members: list[Claimant], placer: Placer) -> bool:
        """Let one replica change hands, if there is one that should."""
        poorest = sorted(members, key=lambda each: (each.turn.rank, self._part(each)))
        richest = sorted(members, key=self._part, reverse=True)
        return any(
            self._should_give(rich, poor, role, beyond=beyond) and self._give(rich, poor, role, placer)
            for beyond in (False, True)
            for poor in poorest
            if (role := poor.next_role(beyond=beyond)) is not None
            for rich in richest
        )

    def _should_give(self, rich: Claimant, poor: Claimant, role: RoleDemand, *, beyond: bool) -> bool:
        """Whether the last replica of one gang belongs to another: it is beyond what the first has asked for and not
        beyond what the second has, or both are alike and the first has as much even without it."""
        spare = self._surplus[rich.turn.gang.job.id]
        row = self._reservations.needs.of(role.shape).row
        if rich is poor or not spare or not np.array_equal(self._reservations.needs.of(spare[-1].shape).row, row):
            return False
        extra = rich.count[spare[-1].role] > rich.turn.gang.demand.role(spare[-1].role).wanted
        if extra != beyond:
            return extra
        step = self._tree.part(self._tree.measure.of_count(row, 1))
        return rich.turn.rank == poor.turn.rank and self._part(rich) - step >= self._part(poor) + step - 1e-9

    def _give(self, rich: Claimant, poor: Claimant, role: RoleDemand, placer: Placer) -> bool:
        """Let the replica go and see whether the other gang could have one just there."""
        giver, draft = rich.turn.gang.job.id, placer.draft
        held = self._surplus[giver][-1]
        mark = draft.mark()
        self._reservations.snapshot.holdings.release(draft, [held])
        there = np.isin(np.arange(len(draft.table)), held.rows)
        allowed = both(there, self._shared.may_grow_on(poor.turn, role, poor.seated))
        seats = placer.extend(role, 1, poor.turn.gang.demand, allowed, poor.seated)
        if seats is None:
            draft.undo(mark)
            return False
        self._surplus[giver].pop()
        amounts = self._tree.measure.of_count(seats.need.row, 1)
        for claimant, name, sign in ((rich, held.role, -1), (poor, role.role, 1)):
            claimant.count[name] += sign
            claimant.amounts = claimant.amounts + sign * amounts
        poor.seated[role.role] += seats.each()
        self._removed[giver] += held.replicas
        self._takers.setdefault(giver, poor)
        return True

    def _part(self, claimant: Claimant) -> float:
        return self._tree.part(claimant.amounts)
