"""How fast a job went with which machines: what its program reported, kept in the job's record.

The lifecycle adds what is measured; ``gangline.allocation`` predicts from it what other sizes would bring.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

SAMPLES_KEPT = 48
"""Sizes and batches of one job that are remembered; beyond that, the one seen for the shortest time is forgotten."""
STEPS_COUNTED = 1000.0
"""No size weighs more than this many steps, so that what changes during training is noticed."""
SAME = 0.005
"""A report that differs by less says nothing new: nobody's choice depends on it, and the record need not change."""
OUTLIER_FACTOR = 2.0
"""A report that differs from many others of the same size by more than this counts as if it differed by this."""
SILENT_SECONDS = 600.0
"""Who has told nothing for this long has fallen silent,"""
SILENT_PAUSES = 3.0
"""unless it never told anything more often: this many times its own longest pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSample:
    """What one size of a gang was seen to do, on average over ``steps`` steps.

    ``step_seconds`` is the time of one step of the whole job; where the samples of a worker and pass (``batch``) are
    known, that of the last pass of a step, of which ``sync_seconds`` are spent exchanging gradients. A program that
    reports only how far it is has its whole training as its step.
    """

    workers: int
    servers: int = 0
    nodes: int = 1
    gpu_type: str = ""
    batch: int = 0
    step_seconds: float
    sync_seconds: float | None = None
    steps: float = field(default=1.0, compare=False)

    @property
    def size(self) -> tuple[int, int, int, str, int]:
        """What it is a measurement of."""
        return (self.workers, self.servers, self.nodes, self.gpu_type, self.batch)

    @property
    def sound(self) -> bool:
        """Whether it can be true at all."""
        times = (self.step_seconds, self.sync_seconds or 0.0, self.steps)
        return (
            all(math.isfinite(each) for each in times)
            and self.workers > 0
            and self.nodes > 0
            and self.step_seconds > 0
            and 0 <= (self.sync_seconds or 0.0) <= self.step_seconds
            and self.steps > 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRange:
    """Batch sizes among which a program can choose: the one it was tuned for, the largest, and what a worker can take
    in one pass. Larger shares of a worker are computed in several passes."""

    base: int
    most: int
    least_local: int = 1
    most_local: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRecord:
    """Everything that is known of a job's speed.

    ``noise`` is the gradient noise scale in samples (``first_noise`` near the beginning), ``progress`` the share of the
    training that is done, ``restart_seconds`` what a change of size costs, ``replica_seconds`` what it has had in all.
    ``measured_at`` is when it last told of itself, ``longest_pause`` the longest that one measurement took.
    """

    samples: tuple[SpeedSample, ...] = ()
    batches: BatchRange | None = None
    noise: float | None = None
    first_noise: float | None = None
    progress: float | None = None
    restart_seconds: float | None = None
    replica_seconds: float = 0.0
    measured_at: float | None = None
    longest_pause: float = 0.0

    @property
    def largest_tried(self) -> int:
        """The most workers that were seen at work; 0 if none were."""
        return max((sample.workers for sample in self.samples), default=0)

    @property
    def patience(self) -> float:
        """Seconds without a report after which what it told before counts no longer."""
        return max(SILENT_SECONDS, SILENT_PAUSES * self.longest_pause)


def with_sample(record: SpeedRecord, sample: SpeedSample) -> SpeedRecord:
    """The record with one more report; one that cannot be true is left out, one that contradicts many counts less."""
    if not sample.sound:
        return record
    others = tuple(each for each in record.samples if each.size != sample.size)
    known = next((each for each in record.samples if each.size == sample.size), None)
    merged = sample if known is None else _merged(known, sample)
    samples = (*others, merged)
    if len(samples) > SAMPLES_KEPT:
        rarest = min(samples[:-1], key=lambda each: each.steps)
        samples = tuple(each for each in samples if each is not rarest)
    had = sample.workers * sample.steps * sample.step_seconds
    return replace(
        record,
        samples=samples,
        replica_seconds=record.replica_seconds + had,
        longest_pause=max(record.longest_pause, sample.steps * sample.step_seconds),
    )


EARLY = 0.05
"""The part of a training whose noise a new run is taken to begin with."""


def for_new_run(records: Collection[SpeedRecord]) -> SpeedRecord | None:
    """What a new run may expect of itself, from the records of earlier ones, the latest last; None if they say nothing.

    How far they came and what they have had is their own. The noise of gradients grows as training goes on, so only one
    that was measured near the beginning counts.
    """
    new = SpeedRecord()
    for record in records:
        for sample in record.samples:
            new = with_sample(new, sample)
        new = replace(
            new,
            batches=record.batches or new.batches,
            noise=new.noise if record.first_noise is None else record.first_noise,
            restart_seconds=new.restart_seconds if record.restart_seconds is None else record.restart_seconds,
        )
    pause = max((record.longest_pause for record in records), default=0.0)
    return replace(new, first_noise=new.noise, replica_seconds=0.0, longest_pause=pause) if new.samples else None


def _merged(known: SpeedSample, new: SpeedSample) -> SpeedSample:
    weight, more = min(known.steps, STEPS_COUNTED), min(new.steps, STEPS_COUNTED)
    seconds, sync = new.step_seconds, new.sync_seconds
    if weight >= more:
        seconds = min(max(seconds, known.step_seconds / OUTLIER_FACTOR), known.step_seconds * OUTLIER_FACTOR)
    if known.sync_seconds is not None:
        sync = known.sync_seconds if sync is None else (weight * known.sync_seconds + more * sync) / (weight + more)
    mean = (weight * known.step_seconds + more * seconds) / (weight + more)
    if abs(seconds - known.step_seconds) < SAME * seconds:
        return replace(known, steps=min(weight + more, STEPS_COUNTED))
    sync = None if sync is None else min(sync, mean)
    return replace(known, step_seconds=mean, sync_seconds=sync, steps=min(weight + more, STEPS_COUNTED))
