"""What every trace is reduced to: which job arrives when, and how long it would run on its own."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from gangline.errors import InvalidInputError
from gangline.model import JobSpec, Resources, RoleName, RoleSpec, Timestamp


class TraceError(InvalidInputError):
    """A trace file is not what its format promises; names file and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One job of a trace. ``seconds`` is its run time once all of its replicas run."""

    at: Timestamp
    spec: JobSpec
    seconds: float


def single_gpus(count: int) -> tuple[RoleSpec, ...]:
    """The roles of a job that is known only by its number of GPUs: a worker for each."""
    resources = Resources(cpu_millis=1000, memory_mib=1024, gpu_millis=1000)
    return (RoleSpec(name=RoleName("worker"), replicas=count, command=("train",), resources=resources),)


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, compressed with gzip or not."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
            yield stream
    else:
        with path.open(encoding="utf-8", newline="") as stream:
            yield stream
