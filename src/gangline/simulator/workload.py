"""A trace file as a whole workload: its jobs, how long they take, and the world that the trace was made for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path

from gangline.engines.simulated import Work
from gangline.model import Node, Queue, Resources
from gangline.scheduling import Policies
from gangline.simulator.machines import parse_nodes
from gangline.simulator.run import Outcome, Setup, simulate
from gangline.simulator.traces import Arrival, TraceError, read_openb_jobs, read_openb_nodes, read_philly, read_plain
from gangline.simulator.traces.pollux import EPOCHS, Application, PolluxJob, PolluxWork, read_application, read_pollux

GPUS_PER_POLLUX_NODE = 4


class TraceFormat(StrEnum):
    """What a trace file may be."""

    PHILLY = "philly"
    POLLUX = "pollux"
    OPENB = "openb"
    CSV = "csv"
    """Our own; see traces.plain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs to simulate.

    ``nodes`` are the machines that the trace was made for. ``make_work`` makes a fresh model of the jobs' progress
    for every run; None when they simply run for as long as the trace says. ``start_seconds`` and ``tick_seconds``
    are those of the published simulator, where there is one.
    """

    arrivals: Sequence[Arrival]
    nodes: Sequence[Node]
    make_work: Callable[[], Work] | None = None
    start_seconds: float = 0.0
    tick_seconds: float = 0.0

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
        work = None if self.make_work is None else self.make_work()
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
    return Workload(
        arrivals=[_declared(job, applications[job.application]) for job in jobs],
        nodes=[_pollux_node(node) for node in parse_nodes(f"16x{GPUS_PER_POLLUX_NODE}")],
        make_work=lambda: PolluxWork(jobs, applications),
        start_seconds=30.0,
        tick_seconds=60.0,
    )


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
    TraceFormat.CSV: _plain,
}
