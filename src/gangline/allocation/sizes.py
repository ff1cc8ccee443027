"""Which size each job should have: the choice over all jobs that leave it to the scheduler.

Two policies with one verb. ``Goodput`` maximises what all jobs gain together, exactly; ``MarginalGain`` (Optimus) gives
one replica after the other to whoever gains most time by it, and is there to compare with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from gangline.allocation.knapsack import Option, choose
from gangline.allocation.speed_curve import SpeedCurve, fewest_nodes, speed_curve
from gangline.model.jobs.speed import SpeedRecord

RESTART_SECONDS = 30.0
"""What a change of size is taken to cost a job that has not shown it yet."""
JOINING_SECONDS = 1.0
"""The same where workers come and go while the others go on, as with parameter servers."""
SERVED_GPU_SECONDS = 57_600.0
"""Sixteen GPU hours: whoever has had more counts half, as the order of jobs has it (``LeastAttained``)."""
SERVED_WEIGHT = 0.5
URGENCY = 0.25
"""The power of the remaining work that weighs a job: at 0 it would not count, at 1 the shortest would go first."""
LEAST_WEIGHT, MOST_WEIGHT = 0.5, 2.0
"""However much or little remains, nobody counts less or more than this for it."""
FAIRNESS = -0.5
"""The power of the speedup that is summed: the nearer to 1 the more counts what all have together, the lower the more
whoever has least. -0.5 is what Sia (SOSP'23) found best and was not changed."""
MOST_GROWTH = 2
"""A job gets at most this many times the size that it has been seen at."""
LEAST_FACTOR = 0.05
"""A restart never makes a size look worse than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A job whose size is to be chosen, between ``least`` and ``most`` workers that take ``units`` of capacity each.

    ``present`` is what it has (0: it starts now, so that no size costs it a restart). ``changes`` counts how often it
    was started or changed, over ``age_seconds``. A job that is not ``free`` to change keeps what it has. ``limit``
    is the most that its user allows, where ``most`` may be less for now.
    """

    name: str
    least: int
    most: int
    limit: int = 0
    present: int = 0
    units: int = 1
    per_node: int = 1
    servers: int = 0
    record: SpeedRecord | None = None
    changes: int = 0
    age_seconds: float = 0.0
    free: bool = True
    restart_seconds: float = RESTART_SECONDS
    curve: SpeedCurve | None = field(init=False, default=None, compare=False)
    """Its speed by size; None while nothing is known of it."""

    def __post_init__(self) -> None:
        if self.record is not None:
            object.__setattr__(self, "curve", speed_curve(self.record))

    def sizes(self) -> list[int]:
        """Sizes worth a thought: any inside one node, whole nodes beyond, its user's limit, and what it has."""
        if not self.free:
            return [self.present]
        tried = 0 if self.record is None else self.record.largest_tried
        most = min(self.most, max(MOST_GROWTH * tried, self.least))
        node = max(self.per_node, 1)
        sizes = {size for size in range(self.least, most + 1) if size <= node or size % node == 0}
        sizes |= {self.least} | ({self.limit} if self.least <= self.limit <= most else set())
        sizes |= {self.present} if self.least <= self.present <= self.most else set()
        return sorted(sizes)

    def speed(self, workers: int) -> float:
        """Predicted speed; while nothing is known, in proportion to the size."""
        if self.curve is None:
            return float(max(workers, 1))
        return self.curve.speed(workers, nodes=fewest_nodes(workers, self.per_node), servers=self.servers)

    def restart_factor(self, workers: int) -> float:
        """The part of its time that is left to it if it changes as often as it has, once more now included."""
        if self.present in (0, workers):
            return 1.0
        cost = self.restart_seconds
        if self.record is not None and self.record.restart_seconds is not None:
            cost = self.record.restart_seconds
        factor = (self.age_seconds - self.changes * cost) / (self.age_seconds + cost)
        return max(factor, LEAST_FACTOR)

    @property
    def remaining_seconds(self) -> float | None:
        """Replica time that it still needs, if it goes on as it has; None while it has not said how far it is."""
        if self.record is None or not self.record.progress:
            return None
        done = self.record.progress
        return self.record.replica_seconds * max(1.0 - done, 0.0) / done

    @property
    def weight(self) -> float:
        """Half for whoever has had much; more for whoever is nearly done, less for whoever has long to go."""
        if self.record is None:
            return 1.0
        had, remaining = self.record.replica_seconds * self.units, self.remaining_seconds
        weight = SERVED_WEIGHT if had >= SERVED_GPU_SECONDS else 1.0
        if remaining is None:
            return weight
        ratio = SERVED_GPU_SECONDS / max(remaining * self.units, 1.0)
        urgency: float = ratio**URGENCY
        return weight * min(max(urgency, LEAST_WEIGHT), MOST_WEIGHT)


@dataclass(frozen=True, slots=True)
class Goodput:
    """The default: the sizes whose speedups, each to the power of ``fairness``, are worth most together."""

    fairness: float = FAIRNESS

    def sizes(self, candidates: Sequence[Candidate], capacity: int) -> Mapping[str, int]:
        """Return the size of every candidate; all fit into the capacity. Empty if the least sizes do not."""
        sizes = [candidate.sizes() for candidate in candidates]
        jobs = [
            [Option(size * each.units, worth) for size, worth in zip(options, self.worths(each, options), strict=True)]
            for each, options in zip(candidates, sizes, strict=True)
        ]
        chosen = choose(jobs, capacity)
        if chosen is None:
            return {}
        return {each.name: options[number] for each, options, number in zip(candidates, sizes, chosen, strict=True)}

    def worths(self, candidate: Candidate, sizes: Sequence[int]) -> list[float]:
        """What each size is worth: the speedup over the least size, less what the change costs."""
        if len(sizes) == 1:
            return [0.0]  # there is nothing to choose
        base, weight = candidate.speed(max(candidate.least, 1)), candidate.weight
        sign = 1.0 if self.fairness > 0 else -1.0
        speedups = (candidate.speed(max(size, 1)) / base * candidate.restart_factor(size) for size in sizes)
        return [sign * weight * speedup**self.fairness for speedup in speedups]


@dataclass(frozen=True, slots=True)
class MarginalGain:
    """Optimus: every job has its least; then each replica goes to the job whose remaining time it shortens most."""

    def sizes(self, candidates: Sequence[Candidate], capacity: int) -> Mapping[str, int]:
        """Return the size of every candidate; see ``Goodput``."""
        chosen = {each.name: each.least if each.free else each.present for each in candidates}
        left = capacity - sum(chosen[each.name] * each.units for each in candidates)
        if left < 0:
            return {}
        heap = [(-self._gain(each, chosen[each.name]), number) for number, each in enumerate(candidates)]
        heapify(heap)
        while heap:
            gain, number = heappop(heap)
            each = candidates[number]
            if gain >= 0 or each.units > left:
                continue
            chosen[each.name] += 1
            left -= each.units
            heappush(heap, (-self._gain(each, chosen[each.name]), number))
        return chosen

    def _gain(self, candidate: Candidate, workers: int) -> float:
        tried = 0 if candidate.record is None else candidate.record.largest_tried
        if not candidate.free or workers >= min(candidate.most, max(MOST_GROWTH * tried, candidate.least)):
            return 0.0
        progress = 0.0 if candidate.record is None else candidate.record.progress or 0.0
        remaining = max(1.0 - progress, 0.0)
        saved = remaining / candidate.speed(max(workers, 1)) - remaining / candidate.speed(workers + 1)
        return saved / candidate.units
