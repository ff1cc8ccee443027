"""Public traces, where they are at hand: figures that others have published must come out."""

import os
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from gangline.model import Node, NodeName, Resources
from gangline.scheduling import Policies
from gangline.scheduling.plugins.fragmentation import FragmentationGradient
from gangline.scheduling.plugins.orders import Tiresias
from gangline.scheduling.plugins.scores import Pack, Spread
from gangline.simulator.packing import fill, popularity, shuffled
from gangline.simulator.report import ended_at
from gangline.simulator.run import Setup, simulate
from gangline.simulator.traces import read_openb_nodes, read_openb_pods, read_philly
from gangline.simulator.traces.pollux import EPOCHS, PolluxWork, read_application, read_pollux

TRACES = Path(os.environ.get("GANGLINE_TRACES", Path(__file__).parents[3] / "shared" / "data" / "traces"))

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="no public traces: set GANGLINE_TRACES to their folder")


@pytest.mark.slow
def test_philly_is_read_whole() -> None:
    arrivals = list(read_philly(TRACES / "philly" / "philly.csv.gz"))
    assert len(arrivals) == 82_247
    gpu_hours = (
        sum(each.seconds * each.spec.roles[0].replicas * each.spec.roles[0].resources.gpus for each in arrivals) / 3600
    )
    assert gpu_hours == pytest.approx(978_078, rel=0.01)
    assert [each.at for each in arrivals] == sorted(each.at for each in arrivals)


@pytest.mark.slow
def test_openb_is_filled_at_least_as_well_as_published() -> None:
    folder = TRACES / "alibaba-openb-2023" / "csv"
    machines = list(read_openb_nodes(folder / "openb_node_list_all_node.csv.gz"))
    pods = list(read_openb_pods(folder / "openb_pod_list_default.csv.gz"))
    capacity = sum(each.capacity.gpu_millis for each in machines)
    allocation = {
        name: fill(machines, shuffled(pods, seed=42, demand=1.0, capacity=capacity), score).allocation
        for name, score in {
            "gradient": FragmentationGradient(popularity(pods)),
            "default": Pack(),
            "spread": Spread(),
        }.items()
    }
    assert allocation["gradient"] >= 0.952
    assert allocation["default"] >= 0.952
    assert allocation["default"] > allocation["spread"]


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "want_seconds"), [(1, 2474), (2, 5145), (3, 3876), (4, 3280)])
def test_least_attained_service_gives_the_published_completion_times(workload: int, want_seconds: int) -> None:
    folder = TRACES / "pollux-osdi21"
    applications = {name: read_application(folder / "traces" / name) for name in EPOCHS}
    capacity = Resources(cpu_millis=48_000, memory_mib=196_608, gpu_millis=4000)
    machines = [Node(name=NodeName(f"node-{i:02d}"), capacity=capacity) for i in range(16)]
    policies = replace(
        Policies(reclaim=False, defragmentation=False, reservation=False, minimum_run_seconds=0.0),
        job_order=Tiresias(),
    )
    jobs = list(read_pollux(folder / "workloads" / f"workload-{workload}.csv"))
    setup = Setup(nodes=machines, policies=policies, start_seconds=30.0, tick_seconds=60.0)
    outcome = simulate(setup, [each.arrival for each in jobs], PolluxWork(jobs, applications))
    mean = fmean(ended_at(each) - each.created_at for each in outcome.jobs)
    assert mean == pytest.approx(want_seconds, rel=0.05)
