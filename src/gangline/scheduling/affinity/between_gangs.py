"""Who runs beside whom: gangs that want some replicas or jobs in their domain, or bear none of them there.

Unlike a filter, which looks at nodes alone, this changes with every start. The cycle asks for each gang in turn and
tells what it has started. Where no gang has such a rule, nothing is computed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from gangline.model import AffinityKind, AffinityTerm, JobId, Match, NodeTerm
from gangline.scheduling.affinity.label_index import LabelIndex, Place
from gangline.scheduling.demand.shapes import RoleDemand
from gangline.scheduling.gangs.holdings import Held, Waiting
from gangline.scheduling.nodes.table import ABSENT, Bools
from gangline.scheduling.placement.layout import Layout
from gangline.scheduling.plugins.interface import Refusal
from gangline.scheduling.snapshot import Snapshot


class InterGangAffinity:
    """The replicas on the nodes of one cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._table = snapshot.table
        self._used = any(demand.has_affinity for demand in snapshot.holdings.demands)
        self._index = LabelIndex()
        self._placed: set[JobId] = set()
        self._known: dict[object, tuple[Refusal, ...]] = {}
        if self._used:
            for held in snapshot.held.values():
                self._take_in(held, {role.role: role.rows for role in held.roles})

    def settle(self, gang: Waiting, layout: Layout) -> None:
        """A gang has got its place, or more of it."""
        if self._used:
            for seats in layout:
                self._take_in(gang, {seats.role.role: seats.rows.tolist()})
            self._known.clear()

    def key(self, gang: Held | Waiting) -> object:
        """What sets gangs apart that ask for the same: with equal keys, the same nodes suit."""
        if not self._used:
            return None
        spec = gang.job.spec
        return (spec.tenant, _frozen(spec.labels), *(_frozen(role.labels) for role in spec.roles))

    def allowed(self, gang: Held | Waiting, gone: Collection[JobId] = ()) -> Bools | None:
        """Nodes whose replicas suit the gang, and whom it suits, once some jobs are gone; see ``domains``."""
        if not self._used:
            return None
        masks = [self._suited(self.refusals(gang, role, gone)) for role in gang.demand.roles]
        if all(mask is None for mask in masks):
            return None
        open_to_all = np.ones(len(self._table), dtype=np.bool_)
        return np.stack([open_to_all if mask is None else mask for mask in masks])

    def wanted(self, gang: Waiting) -> set[JobId]:
        """Jobs of which the gang must have one beside it."""
        if not self._used:
            return set()
        wanted_terms = (
            pod_affinity
            for role in gang.demand.roles
            for pod_affinity in role.pod_affinity
            if pod_affinity.kind is AffinityKind.AFFINITY
        )
        return {place.job_id for pod_affinity in wanted_terms for place in self._index.meant_by(pod_affinity)}

    def refusals(self, gang: Held | Waiting, role: RoleDemand, gone: Collection[JobId] = ()) -> tuple[Refusal, ...]:
        """Which rules keep the replicas of a role from which nodes."""
        if not self._used:
            return ()
        if gone:
            return self._refusals(gang, role, gone)
        placed = gang.job.id if gang.job.id in self._placed else None
        key = (placed, self.key(gang), role)
        if key not in self._known:
            self._known[key] = self._refusals(gang, role, ())
        return self._known[key]

    def _take_in(self, gang: Held | Waiting, rows: dict[object, Iterable[int]]) -> None:
        self._placed.add(gang.job.id)
        for role in gang.demand.roles:
            if where := tuple(set(rows.get(role.role, ()))):
                self._index.add(_place(gang, role, where))

    def _suited(self, refusals: tuple[Refusal, ...]) -> Bools | None:
        return ~np.logical_or.reduce([refusal.nodes for refusal in refusals]) if refusals else None

    def _refusals(self, gang: Held | Waiting, role: RoleDemand, gone: Collection[JobId]) -> tuple[Refusal, ...]:
        absent = {gang.job.id, *gone}
        return tuple(refusal for refusal in self._affinity_refusals(gang, role, absent) if refusal.nodes.any())

    def _affinity_refusals(self, gang: Held | Waiting, role: RoleDemand, absent: set[JobId]) -> Iterator[Refusal]:
        me = _place(gang, role)
        for pod_affinity in role.pod_affinity:
            others = [place for place in self._index.meant_by(pod_affinity) if place.job_id not in absent]
            reached = self._reached(pod_affinity, others)
            if pod_affinity.kind is AffinityKind.ANTI_AFFINITY:
                yield Refusal(f"{description_of(pod_affinity)} {_where(pod_affinity)}", reached)
            # Who wants others of its own gang lies where they lie, and the first of a group that wants to be together
            # must be allowed to begin somewhere.
            elif not _wants_own_gang(gang, me, pod_affinity) and (reached.any() or not me.is_meant(pod_affinity)):
                yield Refusal(f"no {description_of(pod_affinity, article=False)} {_where(pod_affinity)}", ~reached)
        repelled = np.zeros(len(self._table), dtype=np.bool_)
        for pod_affinity, place in self._index.repelling(me):
            if place.job_id not in absent:
                repelled |= self._reached(pod_affinity, [place], present=False)
        yield Refusal("somebody there keeps those with its labels away", repelled)

    def _reached(self, pod_affinity: AffinityTerm, places: Iterable[Place], *, present: bool = True) -> Bools:
        """Nodes in a domain with any of these, or with somebody who belongs to no job."""
        level = self._table.level(pod_affinity.level)
        found = np.zeros(len(level.names), dtype=np.bool_)
        rows = [row for place in places for row in place.rows]
        domains = level.ids[rows]
        found[domains[domains != ABSENT]] = True
        if present and pod_affinity.present:
            found |= np.isin(level.names, pod_affinity.present)
        # The last entry is for nodes without a domain, whose id is the last index.
        return np.asarray(np.append(found, False)[level.ids])  # a value, not a flag


def _place(gang: Held | Waiting, role: RoleDemand, rows: tuple[int, ...] = ()) -> Place:
    spec = gang.job.spec
    return Place(
        job_id=gang.job.id,
        tenant=spec.tenant,
        job_labels=spec.labels,
        labels=spec.role(role.name).labels,
        pod_affinity=role.pod_affinity,
        rows=rows,
    )


def _wants_own_gang(gang: Held | Waiting, me: Place, pod_affinity: AffinityTerm) -> bool:
    """Whether a rule means other roles of the same gang, and not the one that has it."""
    spec = gang.job.spec
    if pod_affinity.of_jobs or me.is_meant(pod_affinity):
        return False
    return any(pod_affinity.means(role.labels, spec.tenant) for role in spec.roles)


def _frozen(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def description_of(pod_affinity: AffinityTerm, *, article: bool = True) -> str:
    """Say whom a rule means."""
    if pod_affinity.tenants == ():
        return "somebody who keeps it away"
    kind = "job" if pod_affinity.of_jobs else "replica"
    name = f"{kind} with {_text(pod_affinity.labels)}" if pod_affinity.labels else kind
    return f"a {name}" if article else name


def _where(pod_affinity: AffinityTerm) -> str:
    return "runs there" if pod_affinity.level == "node" else f"runs in its {pod_affinity.level}"


def _text(labels: NodeTerm) -> str:
    return ", ".join(
        f"{each.key}={each.values[0]}" if each.operator is Match.IN and len(each.values) == 1 else str(each)
        for each in labels
    )
