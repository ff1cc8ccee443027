"""Reads traces of Gavel (OSDI'20) and Shockwave (NSDI'23): steps to make, and steps per second on each GPU type.

The rates are those of a job that has its GPUs to itself. Shockwave's jobs change their batch size as they run; here
they keep the one they start with, which is what the durations in its traces count on.
"""

import json
import zlib
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gangline.model import Gang, JobId, JobSpec, Node, PlacementRule, Policy, Timestamp
from gangline.simulator.traces.arrival import Arrival, TraceError, open_text, single_gpus
from gangline.simulator.traces.steps import StepWork, measured_types

OTHERWISE = "v100"
"""The GPUs of nodes that name no type, and what declared run times count on."""
APART = "_unconsolidated"
"""Marks the rates of gangs that lie on more nodes than they need."""

_COLUMNS: Mapping[int, tuple[int, int, int]] = {7: (4, 6, 5), 10: (5, 6, 9), 12: (5, 6, 11)}
"""Where steps, GPUs and arrival are, by the number of columns: Gavel's simulations, its cluster, Shockwave."""

Rates = Mapping[str, Mapping[str, Mapping[int, float]]]
"""Steps per second by GPU type, model and number of GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedJob:
    """One line of a trace: an arrival, the model that it trains, and for how many steps."""

    arrival: Arrival
    model: str
    steps: float
    gpus: int


def read_rates(path: Path) -> Rates:
    """Read the table of steps per second; pairs that share a GPU are left out, and so is what does not run at all."""
    try:
        with open_text(path) as stream:
            found = json.load(stream)
        rates: dict[str, dict[str, dict[int, float]]] = {}
        for kind, entries in found.items():
            rates[kind] = {}
            for key, row in entries.items():
                model, gpus = literal_eval(key)
                if row["null"] > 0:
                    rates[kind].setdefault(model, {})[gpus] = row["null"]
    except (ValueError, KeyError, TypeError, AttributeError, SyntaxError, EOFError, zlib.error) as error:
        raise TraceError(f"is not a table of steps per second: {error}", file=str(path)) from error
    return rates


def rate(rates: Rates, kind: str, model: str, gpus: int) -> float:
    """Steps per second with this many GPUs of a type; with a number not measured, as with the next smaller one."""
    known = rates[kind].get(model) or rates[kind.removesuffix(APART)][model]
    return known[max((count for count in known if count <= gpus), default=min(known))]


def base_types(rates: Rates) -> list[str]:
    """The GPU types that were measured."""
    return [kind for kind in rates if not kind.endswith(APART)]


def read_gavel(path: Path, rates: Rates) -> Iterator[SteppedJob]:
    """Read every job in the order of the file; it declares the time it takes on GPUs of the type ``OTHERWISE``.

    A model that does not run on some type of GPU asks for the others.
    """
    try:
        with open_text(path) as stream:
            for number, line in enumerate(stream):
                yield _job(line.rstrip("\n").split("\t"), number, path, rates)
    except (UnicodeDecodeError, EOFError, zlib.error) as error:
        raise TraceError(f"is not a table of text: {error}", file=str(path)) from error


def _job(cells: Sequence[str], number: int, path: Path, rates: Rates) -> SteppedJob:
    try:
        steps, gpus, at = (float(cells[column]) for column in _COLUMNS[len(cells)])
    except (KeyError, ValueError) as error:
        raise TraceError(
            f"is not a job: {error}", file=str(path), line=number + 1, expected="7, 10 or 12 columns between tabs"
        ) from error
    model, count = cells[0], int(gpus)
    everywhere = base_types(rates)
    runs_on = [kind for kind in everywhere if model in rates[kind]]
    if not runs_on:
        raise TraceError(f"no rate is known of '{model}'", file=str(path), line=number + 1)
    seconds = steps / rate(rates, OTHERWISE if OTHERWISE in runs_on else runs_on[0], model, count)
    spec = JobSpec(
        name=f"job-{number}",
        roles=single_gpus(count),
        policy=Policy(expected_seconds=seconds),
        placement=PlacementRule(gpu_types=() if runs_on == everywhere else tuple(runs_on)),
    )
    arrival = Arrival(at=Timestamp(at), spec=spec, seconds=seconds)
    return SteppedJob(arrival=arrival, model=model, steps=steps, gpus=count)


class GavelWork(StepWork):
    """Steps at the rate of the slowest GPU type that a gang has, and of whether it lies on as few nodes as it can."""

    def __init__(self, jobs: Sequence[SteppedJob], rates: Rates, nodes: Sequence[Node]) -> None:
        super().__init__()
        self._jobs = {JobId(job.arrival.spec.name): job for job in jobs}
        self._rates = rates
        self._types = measured_types(nodes, base_types(rates), OTHERWISE)
        self._sizes = {node.name: max(node.capacity.gpu_millis // 1000, 1) for node in nodes}

    def total_steps(self, job_id: JobId) -> float:
        """As the trace says."""
        return self._jobs[job_id].steps

    def step_seconds(self, gang: Gang) -> float:
        """One step at the measured rate."""
        job = self._jobs[gang.id.job_id]
        places = {replica.node for replica in gang.replicas}
        apart = len(places) > -(-job.gpus // max(self._sizes[place] for place in places))
        kinds = {self._types[place] + (APART if apart else "") for place in places}
        return 1.0 / min(rate(self._rates, kind, job.model, job.gpus) for kind in kinds)
