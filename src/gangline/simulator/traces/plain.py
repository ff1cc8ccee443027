"""Our own trace format: one job a line, in a CSV that a person can write by hand.

Columns: ``at`` and ``seconds`` (numbers), ``name``, ``queue``, ``priority``, ``replicas``, ``gpus`` (per replica),
``cpus``, ``memory_mib``. Jobs are told to run for ``seconds``; empty amounts are zero, an empty queue is the default.
"""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from gangline.model import DEFAULT_QUEUE, JobSpec, Policy, QueueName, Resources, RoleName, RoleSpec, Timestamp
from gangline.simulator.traces.arrival import Arrival
from gangline.simulator.traces.rows import Row, read_each

COLUMNS = ("at", "seconds", "name", "queue", "priority", "replicas", "gpus", "cpus", "memory_mib")


def read_plain(path: Path) -> Iterator[Arrival]:
    """Read a trace of our own."""
    names: set[str] = set()

    def build(row: Row) -> Arrival:
        arrival = _arrival(row)
        if arrival.spec.name in names:
            raise row.error(f"there is a job '{arrival.spec.name}' already", "name")
        names.add(arrival.spec.name)
        return arrival

    return read_each(path, COLUMNS, build)


def _arrival(row: Row) -> Arrival:
    if row.number("at") < 0:
        raise row.error("time begins at 0", "at")
    resources = Resources(
        cpu_millis=round(1000 * row.number("cpus")),
        memory_mib=row.whole("memory_mib"),
        gpu_millis=round(1000 * row.number("gpus")),
    )
    role = RoleSpec(name=RoleName("worker"), replicas=row.whole("replicas"), command=("train",), resources=resources)
    return Arrival(
        at=Timestamp(row.number("at")),
        seconds=row.number("seconds"),
        spec=JobSpec(
            name=row.text("name"),
            roles=(role,),
            queue=QueueName(row.text("queue") or DEFAULT_QUEUE),
            priority=row.whole("priority"),
            policy=Policy(expected_seconds=row.number("seconds")),
        ),
    )


def write_plain(path: Path, arrivals: Iterable[Arrival]) -> None:
    """Write jobs of one role as a trace of our own."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for arrival in arrivals:
            spec, role = arrival.spec, arrival.spec.roles[0]
            amounts = role.resources
            writer.writerow(
                (
                    arrival.at,
                    arrival.seconds,
                    spec.name,
                    spec.queue,
                    spec.priority,
                    role.replicas,
                    amounts.gpus,
                    amounts.cpu_millis / 1000,
                    amounts.memory_mib,
                )
            )
