"""Pollux workloads whose jobs leave their size to the scheduler and choose their own batch size.

The programs behave as the authors' do: they measure the step times of what they have, estimate the gradient noise as
they train, and take the batch size of the best goodput by their own measurements. Nobody is told what other sizes
would do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log

from gangline.allocation.speed_curve import speed_curve
from gangline.lifecycle.events import SpeedMeasured
from gangline.model import Gang, GangReplica, JobId, Sizing, Timestamp
from gangline.model.jobs.speed import BatchRange, SpeedRecord, SpeedSample, with_sample
from gangline.simulator.traces.pollux import (
    EPOCHS,
    LARGEST_LOCAL_BATCH,
    Application,
    Epoch,
    PolluxJob,
    gpus_per_node,
    interpolate,
)

FIXED_BATCH: Mapping[str, int] = {"ncf": 32768}
"""Applications that the authors train at one batch size."""


@dataclass(frozen=True)
class Training:
    """How one application converges: its epochs at every batch size, and what a worker can compute at once."""

    application: Application

    @cached_property
    def batches(self) -> BatchRange:
        """What its program may choose from."""
        name, sizes = self.application.name, self.application.batch_sizes
        curves = [measured.step for measured in self.application.placements.values()]
        most_local = min(max(curve[-1][0] for curve in curves), LARGEST_LOCAL_BATCH.get(name, 1 << 30))
        fixed = FIXED_BATCH.get(name)
        return BatchRange(
            base=fixed or sizes[0],
            most=fixed or sizes[-1],
            least_local=max(int(min(curve[0][0] for curve in curves)), 1),
            most_local=int(most_local),
        )

    @cached_property
    def ends(self) -> list[float]:
        """Progress at the end of every epoch."""
        return [epoch.progress for epoch in self.application.epochs[self.application.batch_sizes[0]]][
            : EPOCHS[self.application.name]
        ]

    def noise(self, batch: float, epoch: int) -> float:
        """The gradient noise scale in samples; between measured batch sizes, by the logarithm."""
        known = self._noises.get((batch, epoch))
        if known is not None:
            return known
        points = [(log(size), log(max(self._scale(epochs, epoch), 1e-9))) for size, epochs in self._epochs]
        found = self._noises[batch, epoch] = exp(interpolate(points, log(batch)))
        return found

    @cached_property
    def _noises(self) -> dict[tuple[float, int], float]:
        return {}

    @cached_property
    def _epochs(self) -> list[tuple[int, Sequence[Epoch]]]:
        return sorted(self.application.epochs.items())

    def _scale(self, epochs: Sequence[Epoch], number: int) -> float:
        at = epochs[min(number, len(epochs) - 1)]
        return self.application.batch_sizes[0] * at.grad_var / max(at.grad_sqr, 1e-9 * at.grad_var, 1e-300)

    def worth(self, batch: float, epoch: int) -> float:
        """What one step of a batch is worth in steps of the smallest one."""
        noise, base = self.noise(batch, epoch), self.application.batch_sizes[0]
        return (noise / base + 1.0) / (noise / batch + 1.0)


class AdaptiveWork:
    """The progress of every job, and the batch size that each computes now."""

    def __init__(
        self, jobs: Sequence[PolluxJob], applications: Mapping[str, Application], restart_seconds: float = 30.0
    ) -> None:
        self._restart_seconds = restart_seconds
        self._trainings = {name: Training(application) for name, application in applications.items()}
        self._of = {JobId(job.arrival.spec.name): self._trainings[job.application] for job in jobs}
        self._progress: dict[JobId, float] = {}
        self._records: dict[JobId, SpeedRecord] = {}
        self._chosen: dict[JobId, tuple[tuple[int, ...], int, int]] = {}

    def seconds_left(self, gang: Gang) -> float:
        """Epoch by epoch, at the batch size that the program has chosen."""
        job_id = gang.id.job_id
        training, done, total = self._of[job_id], self._progress.get(job_id, 0.0), 0.0
        seconds, batch = self._step(gang)
        for number, end in enumerate(training.ends):
            if end > done:
                total += (end - done) * seconds / training.worth(batch, number)
                done = end
        return total

    def advance(self, gang: Gang, seconds: float) -> None:
        """Progress that was made in this time."""
        job_id = gang.id.job_id
        training, done = self._of[job_id], self._progress.get(job_id, 0.0)
        step, batch = self._step(gang)
        for number, end in enumerate(training.ends):
            if end <= done or seconds <= 0:
                continue
            needed = (end - done) * step / training.worth(batch, number)
            done = end if needed <= seconds else done + (end - done) * seconds / needed
            seconds -= needed
        self._progress[job_id] = done

    def measure(self, gang: Gang, seconds: float, at: Timestamp) -> SpeedMeasured | None:
        """Report the last pass, its exchange and the noise; then choose the batch size anew."""
        job_id = gang.id.job_id
        training, placement = self._of[job_id], gpus_per_node(gang)
        _, local, _ = self._choice(gang)
        measured = training.application.measured_at(placement)
        step, sync = interpolate(measured.step, local), interpolate(measured.sync, local)
        whole, batch = self._step(gang)
        sample = SpeedSample(
            workers=sum(placement),
            nodes=len(placement),
            batch=local,
            step_seconds=step,
            sync_seconds=min(sync, step) if sum(placement) > 1 else 0.0,
            steps=max(seconds / whole, 1e-3),
        )
        done = self._progress.get(job_id, 0.0)
        epoch = next((number for number, end in enumerate(training.ends) if end > done), len(training.ends) - 1)
        noise = float(f"{training.noise(batch, epoch):.2g}")
        record = with_sample(self._records.get(job_id, SpeedRecord(batches=training.batches)), sample)
        self._records[job_id] = replace(record, noise=noise)
        self._chosen.pop(job_id, None)
        return SpeedMeasured(
            job_id=job_id,
            at=at,
            sample=sample,
            batches=training.batches,
            noise=noise,
            progress=min(done / training.ends[-1], 1.0),
            restart_seconds=self._restart_seconds,
        )

    def exit_code(self, gang: Gang, replica: GangReplica) -> int | None:
        """All goes well."""
        del gang, replica
        return 0

    def _choice(self, gang: Gang) -> tuple[tuple[int, ...], int, int]:
        """The batch of each worker and pass, and the passes, for where the gang is now."""
        job_id, placement = gang.id.job_id, tuple(gpus_per_node(gang))
        known = self._chosen.get(job_id)
        if known is not None and known[0] == placement:
            return known
        batches, workers = self._of[job_id].batches, sum(placement)
        curve = speed_curve(self._records[job_id]) if job_id in self._records else None
        if curve is not None:
            best = curve.at(workers, nodes=len(placement))
            chosen = (placement, best.batch, best.passes)
        else:
            local = max(-(-batches.base // workers), 1)
            passes = -(-local // batches.most_local)
            chosen = (placement, -(-local // passes), passes)
        self._chosen[job_id] = chosen
        return chosen

    def _step(self, gang: Gang) -> tuple[float, float]:
        """Seconds of a whole step, and how many samples it has."""
        placement, local, passes = self._choice(gang)
        measured = self._of[gang.id.job_id].application.measured_at(placement)
        step, sync = interpolate(measured.step, local), interpolate(measured.sync, local)
        return (passes - 1) * (step - sync) + step, float(sum(placement) * local * passes)


def left_to_scheduler(job: PolluxJob, most: int) -> PolluxJob:
    """The same job with a size between one GPU and all of them, whatever its user had asked for."""
    spec = job.arrival.spec
    role = replace(spec.roles[0], replicas=1, minimum=1, maximum=most, command=("train", job.application))
    policy = replace(spec.policy, replicas=Sizing.AUTO)
    return replace(job, arrival=replace(job.arrival, spec=replace(spec, roles=(role,), policy=policy)))
