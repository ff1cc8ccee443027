"""A trace file as a whole workload: its jobs, how long they take, and the world that the trace was made for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path

from gangline.engines.simulated import Work
from gangline.forecast.machines import parse_nodes
from gangline.model import Node, Queue, Resources
from gangline.scheduling import Policies
from gangline.simulator.run import Outcome, Setup, simulate
from gangline.simulator.traces import (
    Arrival,
    TraceError,
    dlrm_nodes,
    read_dlrm,
    read_openb_jobs,
    read_openb_nodes,
    read_philly,
    read_plain,
    read_tiresias,
)
from gangline.simulator.traces.adaptive import AdaptiveWork, left_to_scheduler
from gangline.simulator.traces.gavel import GavelWork, read_gavel, read_rates
from gangline.simulator.traces.pollux import EPOCHS, Application, PolluxJob, PolluxWork, read_application, read_pollux
from gangline.simulator.traces.sia import OTHERWISE as SIA_OTHERWISE
from gangline.simulator.traces.sia import SiaWork, read_measured

GPUS_PER_POLLUX_NODE = 4
GAVEL_NODES = ("9x4xv100", "9x4xp100", "9x4xk80")


class TraceFormat(StrEnum):
    """What a trace file may be."""

    PHILLY = "philly"
    POLLUX = "pollux"
    OPENB = "openb"
    SIA = "sia"
    GAVEL = "gavel"
    SHOCKWAVE = "shockwave"
    TIRESIAS = "tiresias"
    DLRM = "dlrm"
    CSV = "csv"
    """Our own; see traces.plain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs to simulate.

    ``nodes`` are the machines that the trace was made for. ``make_work`` makes a fresh model of the jobs' progress
    on the nodes of a run; None when they simply run for as long as the trace says. ``start_seconds`` and
    ``tick_seconds`` are those of the published simulator, where there is one.
    """

    arrivals: Sequence[Arrival]
    nodes: Sequence[Node]
    make_work: Callable[[Sequence[Node]], Work] | None = None
    start_seconds: float = 0.0
    tick_seconds: float = 0.0
    left_to_scheduler: "Workload | None" = None
    """The same jobs without the sizes that their users asked for, where what they do at other sizes is known."""

    @property
    def queues(self) -> tuple[Queue, ...]:
        """Every queue that a job names, all of equal weight."""
        return tuple(Queue(name=name) for name in sorted({arrival.spec.queue for arrival in self.arrivals}))

    def setup(self, policies: Policies, nodes: Sequence[Node] = ()) -> Setup:
        """The world to run it in, on its own machines or on others."""
        return Setup(
            nodes=nodes or self.nodes,
            queues=self.queues,
            policies=policies,
            start_seconds=self.start_seconds,
            tick_seconds=self.tick_seconds,
        )

    def run(self, policies: Policies, nodes: Sequence[Node] = ()) -> Outcome:
        """Simulate it."""
        work = None if self.make_work is None else self.make_work(nodes or self.nodes)
        return simulate(self.setup(policies, nodes), self.arrivals, work)


def read_workload(path: Path, trace: TraceFormat, *, limit: int | None = None) -> Workload:
    """Read a trace, or its first ``limit`` jobs."""
    try:
        return _READERS[trace](path, limit)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", file=str(error.filename or path)) from error


def _philly(path: Path, limit: int | None) -> Workload:
    # The published cluster had 2,490 GPUs; 311 nodes of eight come next to it.
    return Workload(arrivals=list(islice(read_philly(path), limit)), nodes=parse_nodes("311x8"))


def _plain(path: Path, limit: int | None) -> Workload:
    return Workload(arrivals=list(islice(read_plain(path), limit)), nodes=parse_nodes("16x8"))


def _openb(path: Path, limit: int | None) -> Workload:
    """Pods as jobs of one replica, on the nodes that are listed beside them, GPUs or not."""
    lists = sorted(path.parent.glob("openb_node_list_*.csv*"))
    nodes = list(read_openb_nodes(lists[0])) if lists else parse_nodes("1523x4")
    return Workload(arrivals=list(islice(read_openb_jobs(path), limit)), nodes=nodes)


def _pollux(path: Path, limit: int | None) -> Workload:
    """A workload among those that were published; the measurements of its applications lie in ``../traces``."""
    jobs = list(islice(read_pollux(path), limit))
    measured = path.parent.parent / "traces"
    applications = {name: read_application(measured / name) for name in EPOCHS}
    nodes = [_pollux_node(node) for node in parse_nodes(f"16x{GPUS_PER_POLLUX_NODE}")]
    asked = Workload(
        arrivals=[_declared(job, applications[job.application]) for job in jobs],
        nodes=nodes,
        make_work=lambda _: PolluxWork(jobs, applications),
        start_seconds=30.0,
        tick_seconds=60.0,
    )
    chosen = [left_to_scheduler(job, GPUS_PER_POLLUX_NODE * len(nodes)) for job in jobs]
    sized = replace(
        asked,
        arrivals=[job.arrival for job in chosen],
        make_work=lambda _: AdaptiveWork(jobs, applications, asked.start_seconds),
    )
    return replace(asked, left_to_scheduler=sized)


def _sia(path: Path, limit: int | None) -> Workload:
    """A workload as it was published, two folders above the measurements of its applications in ``traces``."""
    jobs = list(islice(read_pollux(path), limit))
    folder = path.parent.parent.parent / "traces"
    measured = {name: read_measured(folder / name) for name in sorted({job.application for job in jobs})}
    return Workload(
        arrivals=[_declared(job, measured[job.application][SIA_OTHERWISE]) for job in jobs],
        nodes=parse_nodes("6x4xaws", "3x8xrtx", "2x8xdgx-ext"),
        make_work=lambda nodes: SiaWork(jobs, measured, nodes),
        tick_seconds=60.0,
    )


def _gavel(path: Path, limit: int | None) -> Workload:
    """A trace of Gavel; the rates lie in the folder above, the machines are those of its simulations."""
    return _stepped(path, limit, path.parent.parent / "simulation_throughputs.json.gz", GAVEL_NODES)


def _shockwave(path: Path, limit: int | None) -> Workload:
    """A trace of Shockwave with the rates beside it, on the 32 GPUs of its canonical run."""
    return _stepped(path, limit, path.parent / "tacc_throughputs.json.gz", ("8x4xv100",))


def _stepped(path: Path, limit: int | None, table: Path, machines: Sequence[str]) -> Workload:
    rates = read_rates(table if table.exists() else table.with_suffix(""))
    jobs = list(islice(read_gavel(path, rates), limit))
    return Workload(
        arrivals=[job.arrival for job in jobs],
        nodes=parse_nodes(*machines),
        make_work=lambda nodes: GavelWork(jobs, rates, nodes),
    )


def _tiresias(path: Path, limit: int | None) -> Workload:
    # The testbed of the paper.
    return Workload(arrivals=list(islice(read_tiresias(path), limit)), nodes=parse_nodes("15x4"))


def _dlrm(path: Path, limit: int | None) -> Workload:
    return Workload(arrivals=list(islice(read_dlrm(path), limit)), nodes=dlrm_nodes())


def _pollux_node(node: Node) -> Node:
    return replace(node, capacity=Resources(cpu_millis=48_000, memory_mib=196_608, gpu_millis=node.capacity.gpu_millis))


def _declared(job: PolluxJob, application: Application) -> Arrival:
    """The arrival with the run time it would have on a tight placement, for rules that use one."""
    replicas, size = job.arrival.spec.roles[0].replicas, GPUS_PER_POLLUX_NODE
    tight = [size] * (replicas // size) + ([replicas % size] if replicas % size else [])
    seconds = application.iterations(job.batch_size) * application.step_seconds(tight, job.batch_size)
    policy = replace(job.arrival.spec.policy, expected_seconds=seconds)
    return replace(job.arrival, spec=replace(job.arrival.spec, policy=policy), seconds=seconds)


_READERS: dict[TraceFormat, Callable[[Path, int | None], Workload]] = {
    TraceFormat.PHILLY: _philly,
    TraceFormat.POLLUX: _pollux,
    TraceFormat.OPENB: _openb,
    TraceFormat.SIA: _sia,
    TraceFormat.GAVEL: _gavel,
    TraceFormat.SHOCKWAVE: _shockwave,
    TraceFormat.TIRESIAS: _tiresias,
    TraceFormat.DLRM: _dlrm,
    TraceFormat.CSV: _plain,
}
