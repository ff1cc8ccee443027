"""Turns a shortfall into an explanation: what excluded which nodes, what is missing, who holds it, what would help."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from gangline.model import Bond, JobId
from gangline.scheduling.bonds import Apart
from gangline.scheduling.draft import MANY, Draft
from gangline.scheduling.explanation import Constraint, Excluded, Explanation, amount_text
from gangline.scheduling.holdings import Waiting
from gangline.scheduling.neighbours import whom
from gangline.scheduling.placement import Needs, Placer, Shortfall
from gangline.scheduling.plugins.interface import Refusal
from gangline.scheduling.reservation import Floor
from gangline.scheduling.shapes import Demand
from gangline.scheduling.table import GPU, PODS, WHOLE_GPUS, Bools, Ints

HOLDERS_SHOWN = 5


class Reasons:
    """Explains gangs against one floor, each distinct demand once; costs a few passes over the nodes."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._table = floor.snapshot.table

    def short(
        self, gang: Waiting, short: Shortfall, allowed: Bools | None = None, *, behind: JobId | None = None
    ) -> Explanation:
        """Why this gang did not get a place on the nodes that its neighbours and its queue allow it."""
        demand = gang.demand
        unsuited = self._unsuited(gang, short)
        alone = self._alone(demand)
        constraint = self._constraint(demand, short, alone, allowed, unsuited)
        told = alone if alone is not None and constraint is Constraint.TOO_LARGE else short
        return Explanation(
            constraint=constraint,
            nodes=len(self._table),
            excluded=tuple(self._excluded(short, unsuited)),
            role=told.role.role,
            wanted=told.role.least,
            possible=told.possible,
            missing=self._missing(demand),
            level=short.level or demand.within,
            behind=behind if constraint is Constraint.RESERVATION else None,
            helps=tuple(self._helps(demand, short, allowed)),
        )

    def _unsuited(self, gang: Waiting, short: Shortfall) -> tuple[Refusal, ...]:
        """What neighbours keep the gang from: of the role that was short, or of another if that one has none."""
        roles = sorted(gang.demand.roles, key=lambda role: role.role != short.role.role)
        found = (self._floor.neighbours.refusals(gang, role) for role in roles)
        return next((refusals for refusals in found if refusals), ())

    def _alone(self, demand: Demand) -> Shortfall | None:
        """What the gang would be short of if nothing else ran."""
        mark = self._empty.draft.mark()
        found = self._empty.place(demand)
        self._empty.draft.undo(mark)
        return found if isinstance(found, Shortfall) else None

    @cached_property
    def _empty(self) -> Placer:
        return Placer(Draft.empty(self._table), self._floor.needs, self._floor.policies)

    def _constraint(
        self,
        demand: Demand,
        short: Shortfall,
        alone: Shortfall | None,
        allowed: Bools | None,
        unsuited: tuple[Refusal, ...],
    ) -> Constraint:
        if not self._floor.needs.of(short.role.shape).allowed.any():
            return Constraint.NODES
        if alone is not None:
            return Constraint.TOO_LARGE
        if self._floor.first is not None and self._fits_now(demand, allowed):
            return Constraint.RESERVATION
        if unsuited and self._fits_now(demand):
            return Constraint.NEIGHBOURS
        if short.level is not None:
            return Constraint.TOPOLOGY
        return Constraint.RESOURCES

    def _fits_now(self, demand: Demand, allowed: Bools | None = None) -> bool:
        now = self._floor.now
        mark = now.draft.mark()
        fits = not isinstance(now.place(demand, allowed), Shortfall)
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

    def _missing(self, demand: Demand) -> dict[str, int]:
        """What the nodes it may use are short of in total."""
        allowed = np.logical_or.reduce([self._floor.needs.of(role.shape).allowed for role in demand.roles])
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
                found.append(gang.owner)
        return tuple(dict.fromkeys(found))

    def _helps(self, demand: Demand, short: Shortfall, allowed: Bools | None) -> Iterator[str]:
        """What would let it start; each of these has been tried out."""
        role = short.role
        if self._fewer_would_do(demand, short, allowed):
            yield f"With {short.possible} instead of {role.least} '{role.role}' replicas it would start now."
        for refusal in self._floor.needs.refusals(role.shape):
            if demand.within is None and self._is_in_the_way(refusal, demand, short, allowed):
                yield f"It would start now if this did not exclude nodes: {refusal.rule}."
        aparts = [apart for apart in demand.apart if role.role in apart.roles]
        for apart in aparts:
            yield f"{_pair_text(apart)} may share a {apart.level}, and {short.possible} have room."
        for group in demand.together:
            wanted = [whom(each) for each in role.company if each.bond is Bond.ATTRACTS and each.level == group.level]
            if role.role in group.roles and wanted:
                yield f"It must share a {group.level} with {' and with '.join(dict.fromkeys(wanted))}."
        for even in role.even:
            yield f"No {even.level} may have over {even.skew} more '{role.role}' replicas than another."
        nodes = self._more_nodes(demand, short) if allowed is None else None
        if nodes:
            yield f"{nodes} more empty node{'s' if nodes > 1 else ''} of the largest suitable kind would do."

    def _fewer_would_do(self, demand: Demand, short: Shortfall, allowed: Bools | None) -> bool:
        if demand.within is not None or not short.possible or len(demand.roles) > 1:
            return False
        fewer = replace(demand, roles=(replace(short.role, least=short.possible),))
        return self._floor.would_fit(fewer, allowed)

    def _is_in_the_way(self, refusal: Refusal, demand: Demand, short: Shortfall, allowed: Bools | None) -> bool:
        """Whether the gang would start if one rule did not keep it from nodes."""
        role, needs = short.role, self._floor.needs
        others = [each.nodes for each in needs.refusals(role.shape) if each is not refusal]
        reopened = refusal.nodes & ~np.logical_or.reduce(others) if others else refusal.nodes
        room = int(_fits_on(self._floor.now.draft.free[reopened], needs.of(role.shape).row).sum())
        if not room or short.possible + room < role.least:
            return False  # found out without a look at the rest of the gang
        return self._floor.would_fit(demand, allowed, Needs(self._table, self._floor.policies, lifted=refusal.rule))

    def _more_nodes(self, demand: Demand, short: Shortfall) -> int | None:
        """How many more nodes like the one with most room for the role would do: the rest of each role goes there.

        None where new nodes might not count: that depends on the domain they are in, and on who runs there.
        """
        if demand.within is not None or demand.apart or demand.together or demand.choosy or self._floor.guarded:
            return None
        if any(role.even for role in demand.roles):
            return None
        placer, needs = self._floor.open, self._floor.needs
        largest = int(self._empty.draft.counts(needs.of(short.role.shape)).argmax()) if len(self._table) else 0
        mark, nodes = placer.draft.mark(), 0
        for role in demand.roles:
            seats = placer.extend(role, role.least, demand)
            missing = role.least - (0 if seats is None else int(seats.counts.sum()))
            if missing:
                each = self._empty.draft.counts(needs.of(role.shape))[largest : largest + 1].sum()
                nodes += -(-missing // int(each)) if each else MANY
        placer.draft.undo(mark)
        return nodes if nodes < MANY else None


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
