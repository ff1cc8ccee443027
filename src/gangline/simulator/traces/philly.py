"""Reads the Philly trace (Microsoft, 2017) as reduced to submit time, duration, GPUs and virtual cluster."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gangline.model import JobSpec, Policy, QueueName, Resources, RoleName, RoleSpec, Timestamp
from gangline.simulator.traces.arrival import Arrival, TraceError
from gangline.simulator.traces.rows import read_rows

GPUS_PER_REPLICA = 8
"""Jobs that ask for more GPUs than this run as several replicas of this size."""


def read_philly(path: Path, *, gpus_per_replica: int = GPUS_PER_REPLICA, one_queue: bool = True) -> Iterator[Arrival]:
    """Read every job, in the order of submission; times count from the first one.

    With ``one_queue`` all share the default queue; otherwise every virtual cluster is a queue of its own.
    """
    rows = list(read_rows(path, ("timestamp", "duration", "num_gpus", "cluster")))
    stamps = [_parse(row.text("timestamp"), path, line) for line, row in enumerate(rows, start=2)]
    order = sorted(range(len(rows)), key=lambda index: (stamps[index], index))
    start = stamps[order[0]] if order else 0.0
    roles: dict[int, tuple[RoleSpec, ...]] = {}
    for number, index in enumerate(order):
        row = rows[index]
        gpus = row.whole("num_gpus")
        if gpus not in roles:
            roles[gpus] = _roles(gpus, gpus_per_replica)
        queue = QueueName("default") if one_queue else QueueName(f"vc-{row.text('cluster')[:12].lower()}")
        seconds = row.number("duration")
        yield Arrival(
            at=Timestamp(stamps[index] - start),
            seconds=seconds,
            spec=JobSpec(
                name=f"philly-{number}",
                roles=roles[gpus],
                queue=queue,
                policy=Policy(expected_seconds=seconds),
            ),
        )


def _roles(gpus: int, per_replica: int) -> tuple[RoleSpec, ...]:
    """The fewest replicas of equal size."""
    replicas = max(-(-gpus // per_replica), 1)
    each = -(-gpus // replicas)
    resources = Resources(cpu_millis=4000 * each, memory_mib=16_384 * each, gpu_millis=1000 * each)
    return (RoleSpec(name=RoleName("worker"), replicas=replicas, command=("train",), resources=resources),)


def _parse(text: str, path: Path, line: int) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise TraceError(f"'{text}' is not a time", field="timestamp", file=str(path), line=line) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
