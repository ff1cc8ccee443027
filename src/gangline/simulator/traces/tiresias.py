"""Reads the traces of Tiresias' simulator (NSDI'19): GPUs, submit time and duration of every job."""

from collections.abc import Iterator
from pathlib import Path

from gangline.model import JobSpec, Policy, Timestamp
from gangline.simulator.traces.arrival import Arrival, single_gpus
from gangline.simulator.traces.rows import Row, read_each


def read_tiresias(path: Path) -> Iterator[Arrival]:
    """Read every job in the order of the file. Ids may repeat there, so jobs are named by model and line."""
    return read_each(path, ("job_id", "num_gpu", "submit_time", "duration", "model_name"), _arrival)


def _arrival(row: Row) -> Arrival:
    seconds = row.number("duration")
    name = f"{row.text('model_name').lower().replace('_', '-')}-{row.line - 2}"
    spec = JobSpec(name=name, roles=single_gpus(row.whole("num_gpu")), policy=Policy(expected_seconds=seconds))
    return Arrival(at=Timestamp(row.number("submit_time")), spec=spec, seconds=seconds)
