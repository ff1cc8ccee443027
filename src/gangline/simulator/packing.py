"""Replays replicas that arrive one by one and never leave: how much of the GPUs can a score fill?

Directly over ``scheduling``, without jobs, queues or a controller: it judges placement and nothing else.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gangline.model import Node, RoleName
from gangline.scheduling.demand.shapes import Demand, RoleDemand, Shape
from gangline.scheduling.experience import taught, with_started
from gangline.scheduling.nodes.draft import Draft
from gangline.scheduling.nodes.table import GPU, table_of
from gangline.scheduling.placement.placer import Needs, Placer, Shortfall
from gangline.scheduling.plugins.interface import Score
from gangline.scheduling.policies import Policies

LEARN_EVERY = 100
"""So many replicas arrive between two cycles, at each of which a score may take account of what it has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """GPU thousandths that were asked for, and that found a place, in a cluster of ``capacity``."""

    capacity: int
    arrived: int
    placed: int
    refused: int

    @property
    def allocation(self) -> float:
        """The part of the cluster's GPUs that is in use, between 0 and 1."""
        return self.placed / self.capacity


def shuffled(shapes: Sequence[Shape], *, seed: int, demand: float, capacity: int) -> Iterator[Shape]:
    """All shapes in random order, then random ones again, until ``demand`` times the capacity has arrived."""
    generator = random.Random(seed)
    first = list(shapes)
    generator.shuffle(first)
    arrived = 0
    position = 0
    while arrived < demand * capacity:
        shape = first[position] if position < len(first) else generator.choice(first)
        position += 1
        arrived += shape.gpu_millis
        yield shape


def fill(nodes: Sequence[Node], shapes: Iterable[Shape], score: Score) -> Filled:
    """Place shapes one by one; those that do not fit are refused for good. A score that learns does so on the way."""
    table = table_of(nodes)
    policies = Policies(pack=score)
    placer = Placer(Draft.empty(table), Needs(table, policies), policies)
    demands: dict[Shape, Demand] = {}
    seen: Mapping[Shape, float] = {}
    fresh: list[Demand] = []
    arrived = placed = refused = 0
    for number, shape in enumerate(shapes):
        if number % LEARN_EVERY == 0:
            seen, fresh = with_started(seen, fresh), []
            placer = Placer(placer.draft, placer.needs, taught(policies, seen))
        if shape not in demands:
            demands[shape] = Demand((RoleDemand(RoleName("pod"), shape, 1, 1),))
        fresh.append(demands[shape])
        arrived += shape.gpu_millis
        if isinstance(placer.place(demands[shape]), Shortfall):
            refused += 1
        else:
            placed += shape.gpu_millis
            placer.draft.commit()
    return Filled(capacity=int(table.capacity[:, GPU].sum()), arrived=arrived, placed=placed, refused=refused)


def popularity(shapes: Iterable[Shape]) -> list[tuple[Shape, float]]:
    """How often each shape arrives: the workload that the fragmentation gradient prepares for."""
    return [(shape, float(times)) for shape, times in sorted(Counter(shapes).items(), key=lambda item: -item[1])]
