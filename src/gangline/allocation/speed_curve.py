"""What a job's speed would be at each size, from its record, and how sure that is."""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np

from gangline.allocation.least_squares import Floats
from gangline.allocation.speed_models import AllReduceForm, ServerForm, fit_all_reduce, fit_servers
from gangline.model.jobs.speed import BatchRange, SpeedRecord, SpeedSample

BATCH_STEPS = 40
"""Batch sizes that are tried between the base and the largest, each the same factor larger than the one before."""
KNOWN_ERROR = 0.05
"""A prediction of a size that was seen is off by so much at least, as a part of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Speed at one size, in steps of the base batch (or shares of the training) per second; it lies between ``low`` and
    ``high`` with fair certainty. ``batch`` and ``passes`` are what each worker should compute, 0 if it is not asked."""

    workers: int
    speed: float
    low: float
    high: float
    batch: int = 0
    passes: int = 1


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """The fitted record of one job."""

    record: SpeedRecord
    form: AllReduceForm | ServerForm

    def at(self, workers: int, *, nodes: int = 1, servers: int = 0) -> Prediction:
        """Predict the speed of a size."""
        speed, batch, passes = self._speed(workers, nodes, servers)
        low, high = speed * (1 - self._error), speed * (1 + self._error)
        tried = self.record.largest_tried
        if workers > tried:
            # Beyond what was seen it may gain nothing, or all that there is to gain.
            seen, _, _ = self._speed(tried, min(nodes, tried), servers)
            low, high = min(low, seen), max(high, seen * workers / tried)
        return Prediction(workers=workers, speed=speed, low=low, high=high, batch=batch, passes=passes)

    def speed(self, workers: int, *, nodes: int = 1, servers: int = 0) -> float:
        """The speed of a size alone."""
        return self._speed(workers, nodes, servers)[0]

    @property
    def _error(self) -> float:
        return min(max(2 * self.form.error, KNOWN_ERROR), 0.9)

    def _speed(self, workers: int, nodes: int, servers: int) -> tuple[float, int, int]:
        if isinstance(self.form, ServerForm):
            return 1.0 / max(self.form.step_seconds(workers, servers), 1e-12), 0, 1
        assert self.record.batches is not None
        return _best_batch(self.form, self.record.batches, self.record.noise, workers, nodes)


@lru_cache(maxsize=65536)
def _best_batch(
    form: AllReduceForm, batches: BatchRange, noise: float | None, workers: int, nodes: int
) -> tuple[float, int, int]:
    """The batch of the best goodput: steps per second, times what a step of that batch is worth."""
    most = batches.base if noise is None else batches.most
    least = max(batches.base, workers * batches.least_local)
    if least > max(most, batches.base):
        # Workers that have less than they can compute at once only wait for each other.
        most = least
    totals = np.geomspace(least, max(most, least), BATCH_STEPS)
    local = totals / workers
    passes = np.maximum(np.ceil(local / batches.most_local - 1e-9), 1.0)
    if workers == 1:
        # One worker in one pass cannot measure the noise that a larger batch would call for.
        passes = np.where((totals > batches.base * 1.001) & (passes < 2), 2.0, passes)
    batch = local / passes
    seconds = (passes - 1) * form.pass_seconds(batch) + form.last_pass_seconds(workers, nodes, batch)
    goodput = gain(totals, batches.base, noise) / seconds
    best = int(np.argmax(goodput))
    return float(goodput[best]), max(round(float(batch[best])), 1), int(passes[best])


def gain(batch: Floats, base: int, noise: float | None) -> Floats:
    """What a step of a batch is worth in steps of the base batch, by the gradient noise scale (in samples)."""
    if noise is None:
        return np.ones_like(batch)
    return np.asarray((noise / base + 1.0) / (noise / batch + 1.0))


def speed_curve(record: SpeedRecord) -> SpeedCurve | None:
    """Fit a record; None while nothing was measured."""
    known = record.batches is not None and any(each.batch > 0 for each in record.samples)
    samples = tuple(each for each in record.samples if (each.batch > 0) is known)
    return SpeedCurve(record, _fit(samples, known)) if samples else None


@lru_cache(maxsize=4096)
def _fit(samples: tuple[SpeedSample, ...], known: bool) -> AllReduceForm | ServerForm:  # noqa: FBT001  # a key
    return fit_all_reduce(samples) if known else fit_servers(samples)


def fewest_nodes(workers: int, per_node: int) -> int:
    """Nodes that this many workers need."""
    return ceil(workers / max(per_node, 1))
