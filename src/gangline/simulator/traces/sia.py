"""Reads the Sia workloads (SOSP'23): as Pollux', with step times per GPU type and a restart cost per model."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gangline.model import Gang, Node
from gangline.simulator.traces.arrival import TraceError
from gangline.simulator.traces.pollux import Application, PolluxJob, PolluxWork, gpus_per_node, read_application
from gangline.simulator.traces.steps import measured_types

OTHERWISE = "aws"
"""The GPUs of nodes that name no type: T4, as in the Pollux workloads."""

RESTART_SECONDS: Mapping[str, float] = {
    "cifar10": 30.0,
    "deepspeech2": 25.0,
    "bert": 120.0,
    "yolov3": 45.0,
    "imagenet": 250.0,
}
"""What every change of its machines costs an application, as published."""
OTHER_RESTART_SECONDS = 30.0

Measured = Mapping[str, Application]
"""One application by GPU type."""


def read_measured(folder: Path) -> Measured:
    """Read an application on every GPU type that it was measured on."""
    kinds = sorted(path.stem.removeprefix("placements-") for path in folder.glob("placements-*.csv"))
    if not kinds:
        raise TraceError("holds no step times of any GPU type", file=str(folder), expected="placements-TYPE.csv")
    return {kind: read_application(folder, kind) for kind in kinds}


class SiaWork(PolluxWork):
    """As in a Pollux workload, with step times of the slowest GPU type that a gang has."""

    def __init__(self, jobs: Sequence[PolluxJob], measured: Mapping[str, Measured], nodes: Sequence[Node]) -> None:
        super().__init__(jobs, {name: next(iter(kinds.values())) for name, kinds in measured.items()})
        self._measured = measured
        known = set.intersection(*(set(kinds) for kinds in measured.values()))
        self._types = measured_types(nodes, known, OTHERWISE)

    def step_seconds(self, gang: Gang) -> float:
        """One step on these GPUs of these types."""
        job = self._jobs[gang.id.job_id]
        measured, placement = self._measured[job.application], gpus_per_node(gang)
        kinds = {self._types[replica.node] for replica in gang.replicas}
        return max(measured[kind].step_seconds(placement, job.batch_size) for kind in kinds)

    def start_seconds(self, gang: Gang) -> float:
        """What starting it, again or for the first time, costs."""
        return RESTART_SECONDS.get(self._jobs[gang.id.job_id].application, OTHER_RESTART_SECONDS)
