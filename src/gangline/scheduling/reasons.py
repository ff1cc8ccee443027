"""Turns a shortfall into an explanation: what excluded which nodes, what is missing, who holds it, what would help."""

from collections.abc import Iterator

import numpy as np

from gangline.model import Bond, JobId
from gangline.scheduling.bonds import Apart
from gangline.scheduling.draft import Draft
from gangline.scheduling.explanation import Constraint, Excluded, Explanation, amount_text
from gangline.scheduling.holdings import Waiting
from gangline.scheduling.neighbours import whom
from gangline.scheduling.placement import Placer, Shortfall
from gangline.scheduling.plugins.interface import Refusal
from gangline.scheduling.reservation import Floor
from gangline.scheduling.shapes import Demand
from gangline.scheduling.table import GPU, PODS, WHOLE_GPUS, Bools, Ints

HOLDERS_SHOWN = 5


class Reasons:
    """Explains gangs against one floor. Costs one pass over the nodes per distinct demand."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._table = floor.snapshot.table
        self._empty: Placer | None = None

    def short(self, gang: Waiting, short: Shortfall, *, behind: JobId | None = None) -> Explanation:
        """Why this gang did not get a place; ``holders`` says who is in its way."""
        demand = gang.demand
        need = self._floor.needs.of(short.role.shape)
        unsuited = self._unsuited(gang, short)
        constraint = self._constraint(demand, short, need.allowed, unsuited)
        if constraint is Constraint.RESERVATION and behind is None:
            constraint = Constraint.RESOURCES
        return Explanation(
            constraint=constraint,
            nodes=len(self._table),
            excluded=tuple(self._excluded(short, unsuited)),
            role=short.role.role,
            wanted=short.role.least,
            possible=short.possible,
            missing=self._missing(demand, need.allowed),
            level=short.level or demand.within,
            behind=behind if constraint is Constraint.RESERVATION else None,
            helps=tuple(self._helps(demand, short)),
        )

    def _unsuited(self, gang: Waiting, short: Shortfall) -> tuple[Refusal, ...]:
        """What neighbours keep the gang from: of the role that was short, or of another if that one has none."""
        roles = sorted(gang.demand.roles, key=lambda role: role.role != short.role.role)
        found = (self._floor.neighbours.refusals(gang, role) for role in roles)
        return next((refusals for refusals in found if refusals), ())

    def ever_fits(self, demand: Demand) -> bool:
        """Whether the gang would fit if nothing else ran."""
        if self._empty is None:
            self._empty = Placer(Draft.empty(self._table), self._floor.needs, self._floor.policies)
        mark = self._empty.draft.mark()
        fits = not isinstance(self._empty.place(demand), Shortfall)
        self._empty.draft.undo(mark)
        return fits

    def _constraint(
        self, demand: Demand, short: Shortfall, allowed: Bools, unsuited: tuple[Refusal, ...]
    ) -> Constraint:
        if not allowed.any():
            return Constraint.NODES
        if not self.ever_fits(demand):
            return Constraint.TOO_LARGE
        if unsuited and self._fits_now(demand):
            return Constraint.NEIGHBOURS
        if self._floor.first is not None and self._fits_now(demand):
            return Constraint.RESERVATION
        if short.level is not None:
            return Constraint.TOPOLOGY
        return Constraint.RESOURCES

    def _fits_now(self, demand: Demand) -> bool:
        now = self._floor.now
        mark = now.draft.mark()
        fits = not isinstance(now.place(demand), Shortfall)
        now.draft.undo(mark)
        return fits

    def _excluded(self, short: Shortfall, unsuited: tuple[Refusal, ...]) -> Iterator[Excluded]:
        """Rules in the order they are applied; then, of the nodes that remain, those with too little of something."""
        shape = short.role.shape
        need = self._floor.needs.of(shape)
        for refusal in (*self._floor.needs.refusals(shape), *unsuited):
            yield Excluded(refusal.rule, int(refusal.nodes.sum()))
        for name, _ in shape.amounts:
            if name not in self._table.columns:
                yield Excluded(f"no node has {name}", len(self._table))
        draft = self._floor.now.draft
        for column in need.columns.tolist():
            few = int((need.allowed & (draft.free[:, column] < need.row[column])).sum())
            if few:
                amount = int(need.row[column])
                text = (
                    f"{amount} whole GPU" if column == WHOLE_GPUS else amount_text(self._table.columns[column], amount)
                )
                yield Excluded(f"less than {text} free", few)
        if need.part:
            roomy = draft.shared.max(axis=1, initial=-1) >= need.part
            few = int((need.allowed & ~roomy & (draft.free[:, WHOLE_GPUS] < shape.whole_gpus + 1)).sum())
            if few:
                yield Excluded(f"no GPU with {need.part / 1000:g} of it free", few)

    def _missing(self, demand: Demand, allowed: Bools) -> dict[str, int]:
        """What the nodes it may use are short of in total."""
        free = np.maximum(self._floor.now.draft.free[allowed], 0).sum(axis=0)
        missing: dict[str, int] = {}
        for name, amount in demand.total().items():
            there = int(free[self._table.columns.index(name)]) if name in self._table.columns else 0
            if amount > there:
                missing[name] = amount - there
        return missing

    def holders(self, short: Shortfall) -> tuple[JobId, ...]:
        """Who occupies nodes that the gang could use, those that end first first."""
        allowed = self._floor.needs.of(short.role.shape).allowed
        found: list[JobId] = []
        for gang in self._floor.by_end():
            if len(found) == HOLDERS_SHOWN:
                break
            if any(allowed[row] for role in gang.roles for row in role.rows):
                found.append(gang.job.id)
        return tuple(found)

    def _helps(self, demand: Demand, short: Shortfall) -> Iterator[str]:
        role = short.role
        need = self._floor.needs.of(role.shape)
        if demand.within is None and short.possible and len(demand.roles) == 1:
            yield f"With {short.possible} instead of {role.least} '{role.role}' replicas it would start now."
        draft = self._floor.now.draft
        for refusal in self._floor.needs.refusals(role.shape):
            others = [each.nodes for each in self._floor.needs.refusals(role.shape) if each is not refusal]
            reopened = refusal.nodes & ~np.logical_or.reduce(others) if others else refusal.nodes
            room = int(_fits_on(draft.free[reopened], need.row).sum())
            if room and short.possible + room >= role.least and demand.within is None:
                yield f"It would start now if this did not exclude nodes: {refusal.rule}."
        best = int(_fits_on(self._table.capacity[need.allowed], need.row).max(initial=0))
        aparts = [apart for apart in demand.apart if role.role in apart.roles]
        for apart in aparts:
            yield f"{_pair_text(apart)} may share a {apart.level}, and {short.possible} have room."
        for group in demand.together:
            wanted = [whom(each) for each in role.company if each.bond is Bond.ATTRACTS and each.level == group.level]
            if role.role in group.roles and wanted:
                yield f"It must share a {group.level} with {' and with '.join(dict.fromkeys(wanted))}."
        for even in role.even:
            yield f"No {even.level} may have over {even.skew} more '{role.role}' replicas than another."
        if best and not aparts and not role.even and demand.within is None:
            nodes = -(-(role.least - short.possible) // best)
            yield f"{nodes} more empty node{'s' if nodes > 1 else ''} of the largest suitable kind would do."


def _pair_text(apart: Apart) -> str:
    names = sorted(apart.roles)
    return f"No two '{names[0]}' replicas" if len(names) == 1 else f"No '{names[0]}' and '{names[1]}' replicas"


def _fits_on(free: Ints, row: Ints) -> Ints:
    """How often a row of amounts fits on each node, whatever the filters say."""
    counts = free[:, PODS].copy()
    for column in np.flatnonzero(row).tolist():
        if column != GPU or not row[WHOLE_GPUS]:
            np.minimum(counts, np.maximum(free[:, column], 0) // row[column], out=counts)
    return counts
