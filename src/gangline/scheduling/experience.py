"""What replicas usually look like here: learnt from the gangs that start, so that placement can prepare for the next.

A value that grows from cycle to cycle. A scheduler without one begins with what runs, so a restart loses only the past.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gangline.scheduling.demand.shapes import Demand, Shape
from gangline.scheduling.plugins.interface import LearningScore
from gangline.scheduling.policies import Policies
from gangline.scheduling.snapshot import Snapshot

SHAPES_KEPT = 64
"""The most frequent ones; the rest are too rare to prepare for."""
REPLICAS_KEPT = 20_000.0
"""When so many have been counted, all counts are halved: what arrives changes over the months."""


def seen_before(snapshot: Snapshot) -> Mapping[Shape, float]:
    """How many replicas of each shape have started; those that run if nothing is remembered."""
    if snapshot.memory.seen:
        return snapshot.memory.seen
    # Most gangs share their shapes with others, and an object is looked up faster by its identity.
    roles = [role for held in snapshot.held.values() for role in held.roles]
    shapes = {id(role.shape): role.shape for role in roles}
    replicas = dict.fromkeys(shapes, 0)
    for role in roles:
        replicas[id(role.shape)] += len(role.rows)
    running: Counter[Shape] = Counter()
    for number, shape in shapes.items():
        running[shape] += replicas[number]
    return dict(running.most_common(SHAPES_KEPT))


def with_started(seen: Mapping[Shape, float], demands: Iterable[Demand]) -> Mapping[Shape, float]:
    """The same, with gangs that start now."""
    counts = dict(seen)
    for demand in demands:
        for role in demand.roles:
            counts[role.shape] = counts.get(role.shape, 0.0) + role.least
    if len(counts) > SHAPES_KEPT:
        counts = dict(sorted(counts.items(), key=lambda item: -item[1])[:SHAPES_KEPT])
    if sum(counts.values()) > REPLICAS_KEPT:
        counts = {shape: times / 2 for shape, times in counts.items()}
    return counts


def taught(policies: Policies, seen: Mapping[Shape, float]) -> Policies:
    """The rules with what a score makes of experience."""
    if not seen or not isinstance(policies.pack, LearningScore):
        return policies
    return replace(policies, pack=policies.pack.taught(seen))
