"""Turns a shortfall into an explanation: what excluded which nodes, what is missing, who holds it, what would help."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from gangline.model import AffinityKind, JobId
from gangline.model.explanation import Constraint, Excluded, Explanation, amount_text
from gangline.model.resources import GPU_MEMORY
from gangline.scheduling.affinity.between_gangs import description_of
from gangline.scheduling.demand.gang_affinity import Separation
from gangline.scheduling.demand.shapes import GPU_MILLIS, Demand, RoleDemand
from gangline.scheduling.gangs.holdings import Waiting
from gangline.scheduling.nodes.draft import MANY, Draft
from gangline.scheduling.nodes.measure import Measure
from gangline.scheduling.nodes.table import ABSENT, GPU, PODS, WHOLE_GPUS, Bools, Ints
from gangline.scheduling.placement.domain_choice import parts_of
from gangline.scheduling.placement.layout import Layout
from gangline.scheduling.placement.placer import Needs, Placer, Shortfall
from gangline.scheduling.plugins.interface import Refusal
from gangline.scheduling.preemption.departures import Departure, vacate
from gangline.scheduling.preemption.reservation import Reservations
from gangline.scheduling.queues.quota import Branch

HOLDERS_SHOWN = 5

REGIONS_SHOWN = 16
"""Domains that are searched for the one that is short of least."""


class Reasons:
    """Explains gangs against what is reserved, each distinct demand once; costs a few passes over the nodes."""

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations
        self._table = reservations.snapshot.table

    def short(
        self, gang: Waiting, short: Shortfall, allowed: Bools | None = None, *, behind: JobId | None = None
    ) -> Explanation:
        """Why this gang did not get a place on the nodes that its neighbours and its queue allow it."""
        demand = gang.demand
        short = self._reservations.open.closest(demand, short, self._reservations.still_open(allowed))
        unsuited = self._unsuited(gang, short)
        alone = self._alone(demand)
        constraint = self._constraint(demand, short, alone, allowed, unsuited)
        told = self._told(demand, short, alone if constraint is Constraint.TOO_LARGE else None, allowed)
        return Explanation(
            constraint=constraint,
            nodes=len(self._table),
            excluded=tuple(self._excluded(demand, short, unsuited)),
            role=told.role.role,
            wanted=told.role.least,
            possible=told.possible,
            missing={} if constraint is Constraint.NODES else self._missing(demand),
            level=told.level or next(iter(demand.levels), None),
            beside=told.beside,
            behind=behind if constraint is Constraint.RESERVATION else None,
            helps=tuple(self._helps(demand, short, allowed)),
        )

    def would_fit_without(
        self, gang: Waiting, allowed: Bools | None, gone: Sequence[Departure], placer: Placer | None = None
    ) -> bool:
        """Whether a gang would fit if some were gone; beside all places that are kept, or as ``placer`` sees it."""
        placer = placer or self._reservations.open
        mark = placer.draft.mark()
        vacate(placer.draft, self._reservations.snapshot.holdings, gone)
        found = placer.place(gang.demand, self._reservations.still_open(allowed))
        placer.draft.undo(mark)
        return not isinstance(found, Shortfall)

    def _unsuited(self, gang: Waiting, short: Shortfall) -> tuple[Refusal, ...]:
        """What neighbours keep the gang from: of the role that was short, or of another if that one has none."""
        roles = sorted(gang.demand.roles, key=lambda role: role.role != short.role.role)
        found = (self._reservations.affinity.refusals(gang, role) for role in roles)
        return next((refusals for refusals in found if refusals), ())

    def _alone(self, demand: Demand) -> Shortfall | None:
        """What the gang would be short of if nothing else ran."""
        mark = self._empty.draft.mark()
        found = self._empty.place(demand)
        self._empty.draft.undo(mark)
        return self._empty.closest(demand, found, None) if isinstance(found, Shortfall) else None

    @cached_property
    def _empty(self) -> Placer:
        return Placer(Draft.empty(self._table), self._reservations.needs, self._reservations.policies)

    def _constraint(
        self,
        demand: Demand,
        short: Shortfall,
        alone: Shortfall | None,
        allowed: Bools | None,
        unsuited: tuple[Refusal, ...],
    ) -> Constraint:
        usable = self._reservations.needs.of(short.role.shape).allowed
        outside = self._outside(demand)
        if not (usable & ~outside).any():
            return Constraint.NODES
        if alone is not None:
            return Constraint.TOO_LARGE
        if self._reservations.first is not None and self._fits_now(demand, allowed):
            return Constraint.RESERVATION
        if unsuited and self._fits_now(demand):
            return Constraint.NEIGHBOURS
        if short.level is not None:
            return Constraint.TOPOLOGY
        return Constraint.RESOURCES

    def _outside(self, demand: Demand) -> Bools:
        """Nodes in no domain of a level that the gang must lie within."""
        outside = [self._table.level(level).ids == ABSENT for level in demand.levels]
        return np.logical_or.reduce(outside) if outside else np.zeros(len(self._table), dtype=np.bool_)

    def _told(self, demand: Demand, short: Shortfall, alone: Shortfall | None, allowed: Bools | None) -> Shortfall:
        """How many replicas are said to fit: now, and not beside the places that are kept for others."""
        found = alone or (self._placed_now(demand, allowed) if self._reservations.first is not None else short)
        return found if isinstance(found, Shortfall) else short

    def _fits_now(self, demand: Demand, allowed: Bools | None = None) -> bool:
        return not isinstance(self._placed_now(demand, allowed), Shortfall)

    def _placed_now(self, demand: Demand, allowed: Bools | None) -> Layout | Shortfall:
        now = self._reservations.now
        mark = now.draft.mark()
        found = now.place(demand, allowed)
        now.draft.undo(mark)
        return now.closest(demand, found, allowed) if isinstance(found, Shortfall) else found

    def _excluded(self, demand: Demand, short: Shortfall, unsuited: tuple[Refusal, ...]) -> Iterator[Excluded]:
        """Rules in the order they are applied; then, of the nodes that remain, those with too little of something."""
        shape = short.role.shape
        need = self._reservations.needs.of(shape)
        for refusal in (*self._reservations.needs.refusals(shape), *unsuited):
            yield Excluded(refusal.rule, int(refusal.nodes.sum()))
        for level in demand.levels:
            outside = int((self._table.level(level).ids == ABSENT).sum())
            if outside:
                yield Excluded(f"in no {level}", outside)
        for name, _ in shape.amounts:
            if name not in self._table.columns:
                yield Excluded(f"no node has {name}", len(self._table))
        draft = self._reservations.now.draft
        for column in need.columns.tolist():
            few = int((need.allowed & (draft.free[:, column] < need.row[column])).sum())
            if few:
                amount = int(need.row[column])
                text = (
                    f"{amount} whole GPU" if column == WHOLE_GPUS else amount_text(self._table.columns[column], amount)
                )
                yield Excluded(f"less than {text} free", few)
        if need.part:
            roomy = draft.shared.max(axis=1, initial=-1) >= (need.part if need.parts is None else need.parts)
            few = int((need.allowed & ~roomy & (draft.free[:, WHOLE_GPUS] < shape.whole_gpus + 1)).sum())
            if few:
                text = f"{need.part / 1000:g} of it" if need.parts is None else f"{shape.amount(GPU_MEMORY)} MiB of it"
                yield Excluded(f"no GPU with {text} free", few)

    def _missing(self, demand: Demand) -> dict[str, int]:
        """What the nodes it may use are short of at least: in total, and for the replicas of each role on its nodes."""
        draft, needs = self._reservations.now.draft, self._reservations.needs
        allowed = np.logical_or.reduce([needs.of(role.shape).allowed for role in demand.roles])
        missing: dict[str, int] = {}
        for name, amount in demand.total().items():
            if name not in self._table.columns:
                missing[name] = amount
                continue
            free = np.maximum(draft.free[:, self._table.columns.index(name)], 0)
            if name == "gpu_millis" and all(role.shape.gpu_part == 0 for role in demand.roles):
                free = np.maximum(draft.free[:, WHOLE_GPUS], 0) * GPU_MILLIS
            short = min(
                max(
                    amount - int(free[region & allowed].sum()),
                    *(self._top_up(free, region, role, name, demand) for role in demand.roles),
                )
                for region in self._regions(demand)
            )
            if short > 0:
                missing[name] = short
        return missing

    def _top_up(self, free: Ints, region: Bools, role: RoleDemand, name: str, demand: Demand) -> int:
        """What a role is short of at least in a region; if it lies in one domain there, in the one that has most."""
        usable = region & self._reservations.needs.of(role.shape).allowed
        amount = role.shape.amount(name)
        if not amount:
            return 0
        own = [each.level for each in parts_of(demand) if each.required and role.role in each.roles]
        if not own:
            return _top_up(free[usable], amount, role.least)
        ids = self._table.level(own[-1]).ids
        room = np.bincount(ids[usable & (ids != ABSENT)], weights=free[usable & (ids != ABSENT)])
        best = np.argsort(-room, kind="stable")[:REGIONS_SHOWN].tolist()
        return min((_top_up(free[usable & (ids == number)], amount, role.least) for number in best), default=0)

    def _regions(self, demand: Demand) -> list[Bools]:
        """Sets of nodes of which one must have all that the gang needs; of many domains, those that have most free."""
        everywhere = np.ones(len(self._table), dtype=np.bool_)
        if not demand.levels:
            return [everywhere]
        domains = self._table.level(demand.levels[-1])
        role = max(demand.roles, key=lambda each: (each.shape.gpu_millis * each.least, each.least))
        need = self._reservations.needs.of(role.shape)
        column = GPU if need.row[GPU] else int(need.columns[0])
        inside = domains.ids != ABSENT
        free = np.where(need.allowed, np.maximum(self._reservations.now.draft.free[:, column], 0), 0)[inside]
        room = np.bincount(domains.ids[inside], weights=free, minlength=len(domains.names))
        best = np.argsort(-room, kind="stable")[:REGIONS_SHOWN]
        return [np.asarray(domains.ids == number) for number in best.tolist()] or [everywhere]

    def holders(self, short: Shortfall) -> tuple[JobId, ...]:
        """Who occupies nodes that the gang could use, those that end first first."""
        allowed = self._reservations.needs.of(short.role.shape).allowed
        found: list[JobId] = []
        for gang in (departure.held for departure in self._reservations.by_end()):
            if len(found) == HOLDERS_SHOWN:
                break
            if gang is not None and any(allowed[row] for role in gang.roles for row in role.rows):
                found.append(gang.owner)
        return tuple(dict.fromkeys(found))

    def _helps(self, demand: Demand, short: Shortfall, allowed: Bools | None) -> Iterator[str]:
        """What would let it start; each of these has been tried out."""
        role = short.role
        yield from self._out_of_reach(short)
        if role.shape.gpu_millis:
            for node in self._table.nodes:
                yield from (f"GPU {gpu} of {node.name} is closed: {why}." for gpu, why in node.closed_gpus.items())
        if self._fewer_would_do(demand, short, allowed):
            yield f"With {short.possible} instead of {role.least} '{role.role}' replicas it would start now."
        for refusal in self._reservations.needs.refusals(role.shape):
            if not demand.together and self._is_in_the_way(refusal, demand, short, allowed):
                yield f"It would start now if this did not exclude nodes: {refusal.rule}."
        separations = [apart for apart in demand.apart if role.role in apart.roles]
        for apart in separations:
            yield f"{_pair_text(apart)} may share a {apart.level}, and {short.possible} have room."
        for group in demand.together:
            wanted = [
                description_of(each)
                for each in role.pod_affinity
                if each.kind is AffinityKind.AFFINITY and each.level == group.level
            ]
            if role.role in group.roles and wanted:
                yield f"It must share a {group.level} with {' and with '.join(dict.fromkeys(wanted))}."
        for spread in role.topology_spread:
            yield f"No {spread.level} may have over {spread.skew} more '{role.role}' replicas than another."
        nodes = self._more_nodes(demand, short) if allowed is None else None
        if nodes:
            yield f"{nodes} more empty node{'s' if nodes > 1 else ''} of the largest suitable kind would do."

    def _out_of_reach(self, short: Shortfall) -> Iterator[str]:
        """What no node has: a GPU type, or enough of something."""
        shape, known = short.role.shape, self._table.gpu_type.names
        for name in shape.gpu_types:
            if name not in known:
                nearest = get_close_matches(name, known, n=1)
                there = f"there are {' and '.join(sorted(known))}." if known else "there are no GPUs."
                yield f"No node has GPU type '{name}'; " + (f"did you mean '{nearest[0]}'?" if nearest else there)
        allowed = self._reservations.needs.of(shape).allowed
        for name, amount in shape.amounts:
            if name in self._table.columns and allowed.any():
                largest = int(self._table.capacity[allowed, self._table.columns.index(name)].max())
                if largest < amount:
                    yield (
                        f"Each '{short.role.role}' replica needs {amount_text(name, amount)}; "
                        f"the largest node that it may use has {amount_text(name, largest)}."
                    )

    def _fewer_would_do(self, demand: Demand, short: Shortfall, allowed: Bools | None) -> bool:
        if demand.together or not short.possible or len(demand.roles) > 1:
            return False
        fewer = replace(demand, roles=(replace(short.role, least=short.possible),))
        return self._reservations.would_fit(fewer, allowed)

    def _is_in_the_way(self, refusal: Refusal, demand: Demand, short: Shortfall, allowed: Bools | None) -> bool:
        """Whether the gang would start if one rule did not keep it from nodes."""
        role, needs = short.role, self._reservations.needs
        others = [each.nodes for each in needs.refusals(role.shape) if each is not refusal]
        reopened = refusal.nodes & ~np.logical_or.reduce(others) if others else refusal.nodes
        room = int(_fits_on(self._reservations.now.draft.free[reopened], needs.of(role.shape).row).sum())
        if not room or short.possible + room < role.least:
            return False  # found out without a look at the rest of the gang
        return self._reservations.would_fit(
            demand, allowed, Needs(self._table, self._reservations.policies, lifted=refusal.rule)
        )

    def _more_nodes(self, demand: Demand, short: Shortfall) -> int | None:
        """How many more nodes like the one with most room for the role would do: the rest of each role goes there.

        None where new nodes might not count: that depends on the domain they are in, and on who runs there.
        """
        if demand.apart or demand.together or demand.has_affinity or self._reservations.guarded:
            return None
        if any(role.topology_spread for role in demand.roles):
            return None
        placer, needs = self._reservations.open, self._reservations.needs
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


def _pair_text(apart: Separation) -> str:
    names = sorted(apart.roles)
    return f"No two '{names[0]}' replicas" if len(names) == 1 else f"No '{names[0]}' and '{names[1]}' replicas"


def _fits_on(free: Ints, row: Ints) -> Ints:
    """How often a row of amounts fits on each node, whatever the filters say."""
    counts = free[:, PODS].copy()
    for column in np.flatnonzero(row).tolist():
        if column != GPU or not row[WHOLE_GPUS]:
            np.minimum(counts, np.maximum(free[:, column], 0) // row[column], out=counts)
    return counts


def _top_up(free: Ints, amount: int, count: int) -> int:
    """The least that must be added so that a number of replicas fit, each of them on one node."""
    if not amount:
        return 0
    lacking = count - int((free // amount).sum())
    if lacking <= 0:
        return 0
    first = np.sort(amount - free % amount)[:lacking]
    return int(first.sum()) + (lacking - len(first)) * amount


def guarantees(leaf: Branch, amounts: Ints, measure: Measure) -> Iterator[str]:
    """What queues of a gang are guaranteed and do not have, where that covers what it asks for."""
    for branch in leaf.path:
        counted = (branch.guarantee > 0) & (amounts > 0)
        if counted.any() and (branch.used + amounts <= branch.guarantee)[counted].all():
            has = [
                f"{amount_text(measure.names[i], int(branch.used[i]))} of the "
                f"{amount_text(measure.names[i], int(branch.guarantee[i]))}"
                for i in np.flatnonzero(counted).tolist()
            ]
            yield f"Queue '{branch.queue.name}' has {' and '.join(has)} that it is guaranteed."
