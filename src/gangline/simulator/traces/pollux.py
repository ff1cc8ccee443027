"""Reads the Pollux workloads (OSDI'21): jobs with tuned requests, measured step times and convergence.

The model of a job is that of the authors' simulator: progress per second is the statistical gain of its batch size
divided by the step time of its placement, and a job ends with the last epoch that its application trains for.
"""

import csv
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, log
from pathlib import Path
from typing import TypeVar

from gangline.model import Gang, JobId, JobSpec, Timestamp
from gangline.simulator.traces.arrival import Arrival, open_text, single_gpus
from gangline.simulator.traces.rows import Row, read_rows
from gangline.simulator.traces.steps import StepWork

EPOCHS: Mapping[str, int] = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
LARGEST_LOCAL_BATCH: Mapping[str, int] = {"yolov3": 8}
"""Applications whose replicas cannot take more than this at once; larger batches are accumulated."""

Curve = Sequence[tuple[float, float]]
"""Points (x, y), sorted by x."""


@dataclass(frozen=True)
class Epoch:
    """What one epoch at one batch size measured, at its end."""

    progress: float
    iteration: float
    grad_sqr: float
    grad_var: float


@dataclass(frozen=True)
class Measured:
    """Seconds per step, and of those the seconds of exchanging gradients, over the batch size of one replica."""

    step: Curve
    sync: Curve


@dataclass(frozen=True)
class Application:
    """One model: how fast it steps on which placement, and how it converges at which batch size."""

    name: str
    placements: Mapping[tuple[int, ...], "Measured"]
    scalability: Mapping[tuple[int, int], "Measured"]
    epochs: Mapping[int, Sequence[Epoch]]

    @cached_property
    def batch_sizes(self) -> list[int]:
        """Batch sizes that were measured, smallest first."""
        return sorted(self.epochs)

    def step_seconds(self, placement: Sequence[int], batch_size: int) -> float:
        """How long one step takes with these GPUs per node."""
        replicas = sum(placement)
        measured = self.measured_at(placement)
        local = batch_size / replicas
        most = min(LARGEST_LOCAL_BATCH.get(self.name, batch_size), measured.step[-1][0])
        rounds = max(ceil(local / most), 1)
        step, sync = interpolate(measured.step, local / rounds), interpolate(measured.sync, local / rounds)
        # Gradients are accumulated over the rounds and exchanged once, in the last.
        return (rounds - 1) * (step - sync) + step

    def measured_at(self, placement: Sequence[int]) -> "Measured":
        """The measurements of a placement, or of the one with the nearest number of GPUs."""
        return self.placements.get(normalised(placement)) or self._nearest_scale(len(placement), sum(placement))

    def _nearest_scale(self, nodes: int, replicas: int) -> "Measured":
        key = min(self.scalability, key=lambda each: (abs(each[1] - replicas), abs(each[0] - nodes), each))
        return self.scalability[key]

    def iterations(self, batch_size: int) -> float:
        """Steps until the last epoch: progress that is made, divided by the statistical gain of the batch size.

        Between measured batch sizes, by the logarithm.
        """
        points = [(log(size), log(self._steps(size))) for size in self.batch_sizes]
        return exp(interpolate(points, log(batch_size)))

    def _steps(self, batch_size: int) -> float:
        scale = batch_size / self.batch_sizes[0]
        steps = done = 0.0
        for epoch in self.epochs[batch_size][: EPOCHS[self.name]]:
            gain = (epoch.grad_var + epoch.grad_sqr) / (epoch.grad_var / scale + epoch.grad_sqr)
            steps += (epoch.progress - done) / gain
            done = epoch.progress
        return steps


def normalised(placement: Sequence[int]) -> tuple[int, ...]:
    """The rotation of a placement that the measurements are listed under: the largest."""
    return max(tuple(placement[i:]) + tuple(placement[:i]) for i in range(len(placement)))


def interpolate(curve: Curve, x: float) -> float:
    """A straight line between the neighbours; beyond an end, the value there."""
    if x <= curve[0][0]:
        return curve[0][1]
    if x >= curve[-1][0]:
        return curve[-1][1]
    position = min(max(bisect_left([point[0] for point in curve], x), 1), len(curve) - 1)
    (x0, y0), (x1, y1) = curve[position - 1], curve[position]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def read_application(folder: Path, kind: str = "") -> Application:
    """Read one application's measurements; those of one type of GPU if there are several."""
    suffix = f"-{kind}.csv" if kind else ".csv"
    placements = _measured(
        folder / f"placements{suffix}", "placement", lambda row: normalised(_digits(row.text("placement")))
    )
    scalability = _measured(
        folder / f"scalability{suffix}", "num_nodes", lambda row: (row.whole("num_nodes"), row.whole("num_replicas"))
    )
    epochs = {int(path.stem.split("-")[1]): _epochs(path) for path in sorted(folder.glob("validation-*.csv"))}
    return Application(folder.name, placements, scalability, epochs)


Key = TypeVar("Key")


def _measured(path: Path, column: str, key_of: Callable[[Row], Key]) -> dict[Key, Measured]:
    steps: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    syncs: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for row in read_rows(path, (column, "local_bsz", "step_time", "sync_time")):
        steps[key_of(row)].append((row.number("local_bsz"), row.number("step_time")))
        syncs[key_of(row)].append((row.number("local_bsz"), row.number("sync_time")))
    return {key: Measured(sorted(steps[key]), sorted(syncs[key])) for key in steps}


def _digits(text: str) -> list[int]:
    return [int(digit) for digit in text]


def _epochs(path: Path) -> list[Epoch]:
    with open_text(path) as stream:
        return [
            Epoch(float(row["progress"]), float(row["iteration"]), float(row["grad_sqr"]), float(row["grad_var"]))
            for row in csv.DictReader(stream)
        ]


@dataclass(frozen=True, slots=True)
class PolluxJob:
    """One line of a workload."""

    arrival: Arrival
    application: str
    batch_size: int


def read_pollux(path: Path) -> Iterator[PolluxJob]:
    """Read a workload: rigid gangs of one GPU per replica, as their users had tuned them."""
    for row in read_rows(path, ("name", "time", "application", "num_replicas", "batch_size")):
        spec = JobSpec(name=row.text("name"), roles=single_gpus(row.whole("num_replicas")))
        arrival = Arrival(at=Timestamp(row.number("time")), spec=spec, seconds=0.0)
        yield PolluxJob(arrival, row.text("application"), row.whole("batch_size"))


class PolluxWork(StepWork):
    """The work of a Pollux workload: progress is steps, and a step takes as long as the placement makes it."""

    def __init__(self, jobs: Sequence[PolluxJob], applications: Mapping[str, Application]) -> None:
        super().__init__()
        self._jobs = {JobId(job.arrival.spec.name): job for job in jobs}
        self._applications = applications

    def total_steps(self, job_id: JobId) -> float:
        """Steps until the job has converged at its batch size."""
        job = self._jobs[job_id]
        return self._applications[job.application].iterations(job.batch_size)

    def step_seconds(self, gang: Gang) -> float:
        """One step with these GPUs per node."""
        job = self._jobs[gang.id.job_id]
        return self._applications[job.application].step_seconds(gpus_per_node(gang), job.batch_size)


def gpus_per_node(gang: Gang) -> list[int]:
    """How many of its replicas, of one GPU each, a gang has on each of its nodes."""
    per_node = Counter(replica.node for replica in gang.replicas)
    return [per_node[node] for node in sorted(per_node)]
