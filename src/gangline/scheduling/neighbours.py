"""Who runs beside whom: gangs that want to be near some jobs, or away from others, by their labels.

Unlike a filter, which looks at nodes alone, this changes with every start. The cycle asks for each gang in turn and
tells what it has started. Where no job has such a wish, nothing is computed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gangline.model import JobId
from gangline.scheduling.holdings import Held, Waiting
from gangline.scheduling.layout import Layout
from gangline.scheduling.plugins.interface import Refusal
from gangline.scheduling.shapes import Labels
from gangline.scheduling.snapshot import Snapshot
from gangline.scheduling.table import Bools


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one job runs, what it is, and whom it keeps away."""

    job_id: JobId
    labels: Mapping[str, str]
    away: Labels
    rows: tuple[int, ...]


class Neighbours:
    """The jobs on the nodes of one cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._size = len(snapshot.table)
        self._used = any(demand.near or demand.away for demand in snapshot.holdings.demands)
        self._places = [_place_of(held) for held in snapshot.held.values()] if self._used else []
        self._placed = {place.job_id for place in self._places}
        self._known: dict[object, tuple[Refusal, ...]] = {}

    def settle(self, gang: Waiting, layout: Layout) -> None:
        """A gang has got its place, or more of it."""
        if self._used:
            rows = tuple(row for seats in layout for row in seats.rows.tolist())
            self._places.append(_Place(gang.job.id, gang.job.spec.labels, gang.demand.away, rows))
            self._placed.add(gang.job.id)
            self._known.clear()

    def key(self, gang: Waiting) -> object:
        """What sets gangs apart that ask for the same: with equal keys, the same nodes suit."""
        return tuple(sorted(gang.job.spec.labels.items())) if self._used else None

    def allowed(self, gang: Waiting, gone: Collection[JobId] = ()) -> Bools | None:
        """Nodes whose jobs suit the gang, and whom it suits, once some are gone; None: all of them."""
        refusals = self.refusals(gang, gone)
        return ~np.logical_or.reduce([refusal.nodes for refusal in refusals]) if refusals else None

    def refusals(self, gang: Waiting, gone: Collection[JobId] = ()) -> tuple[Refusal, ...]:
        """Which wishes keep the gang from which nodes."""
        if not self._used:
            return ()
        if gone:
            return self._refusals(gang, gone)
        placed = gang.job.id if gang.job.id in self._placed else None
        key = (placed, self.key(gang), gang.demand.near, gang.demand.away)
        if key not in self._known:
            self._known[key] = self._refusals(gang, ())
        return self._known[key]

    def _refusals(self, gang: Waiting, gone: Collection[JobId]) -> tuple[Refusal, ...]:
        others = [place for place in self._places if place.job_id != gang.job.id and place.job_id not in gone]
        return tuple(refusal for refusal in self._wishes(gang, others) if refusal.nodes.any())

    def _wishes(self, gang: Waiting, others: list[_Place]) -> Iterator[Refusal]:
        demand, labels = gang.demand, gang.job.spec.labels
        if demand.near:
            wanted = [place for place in others if _carries(place.labels, demand.near)]
            # The first of a group that wants to be together must be allowed to begin somewhere.
            if wanted or not _carries(labels, demand.near):
                yield Refusal(f"no job with {_text(demand.near)} runs there", ~self._rows(wanted))
        if demand.away:
            unwanted = self._rows(place for place in others if _carries(place.labels, demand.away))
            yield Refusal(f"a job with {_text(demand.away)} runs there", unwanted)
        hostile = self._rows(place for place in others if place.away and _carries(labels, place.away))
        yield Refusal("a job there keeps jobs with its labels away", hostile)

    def _rows(self, places: Iterable[_Place]) -> Bools:
        mask = np.zeros(self._size, dtype=np.bool_)
        for place in places:
            mask[list(place.rows)] = True
        return mask


def _place_of(held: Held) -> _Place:
    rows = tuple({row for role in held.roles for row in role.rows})
    return _Place(held.job.id, held.job.spec.labels, held.demand.away, rows)


def _carries(labels: Mapping[str, str], wanted: Labels) -> bool:
    return all(labels.get(name) == value for name, value in wanted)


def _text(labels: Labels) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels)


def both(first: Bools | None, second: Bools | None) -> Bools | None:
    """Nodes that two conditions allow; None allows all."""
    if first is None or second is None:
        return second if first is None else first
    return first & second
