"""The real controller, lifecycle and scheduler on a virtual clock."""

import sys
from pathlib import Path

import pytest

from gangline.errors import InvalidInputError
from gangline.forecast.machines import parse_nodes
from gangline.model import JobSpec, Node, NodeName, Phase, Policy, Resources, RoleName, RoleSpec, Timestamp
from gangline.scheduling import Policies
from gangline.scheduling.plugins.orders import ShortestFirst
from gangline.simulator.plot import new_figure, plot_runs
from gangline.simulator.report import summarise, table
from gangline.simulator.rules import RULES
from gangline.simulator.run import Outcome, Setup, simulate
from gangline.simulator.traces import Arrival, TraceError, read_philly, read_plain, write_plain
from gangline.simulator.workload import TraceFormat, Workload, read_workload


def machines(count: int = 1, gpus: int = 8) -> list[Node]:
    capacity = Resources(cpu_millis=64_000, memory_mib=65_536, gpu_millis=1000 * gpus)
    return [Node(name=NodeName(f"n{i}"), capacity=capacity) for i in range(count)]


def arrival(name: str, *, at: float = 0.0, seconds: float = 100.0, gpus: int = 8, priority: int = 50) -> Arrival:
    one = RoleSpec(
        name=RoleName("worker"),
        replicas=gpus,
        command=("train",),
        resources=Resources(cpu_millis=1000, memory_mib=1, gpu_millis=1000),
    )
    policy = Policy(expected_seconds=seconds)
    return Arrival(
        at=Timestamp(at), seconds=seconds, spec=JobSpec(name=name, roles=(one,), priority=priority, policy=policy)
    )


def spans(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """When every job first got machines and when it ended."""
    return {each.name: (each.started_at or 0.0, each.history[-1].at) for each in outcome.jobs}


def test_jobs_run_one_after_the_other_when_they_do_not_fit_together() -> None:
    outcome = simulate(Setup(nodes=machines()), [arrival("a"), arrival("b", at=10)])
    assert spans(outcome) == {"a": (0.0, 100.0), "b": (100.0, 200.0)}
    assert all(each.phase is Phase.COMPLETED for each in outcome.jobs)


def test_starting_and_stopping_take_the_time_they_are_given() -> None:
    policies = Policies(minimum_run_seconds=0.0)
    setup = Setup(nodes=machines(), policies=policies, start_seconds=30.0, stop_seconds=5.0)
    outcome = simulate(setup, [arrival("low", priority=10), arrival("high", at=40, seconds=50)])
    assert spans(outcome) == {"low": (0.0, 245.0), "high": (45.0, 125.0)}


def test_an_evicted_job_goes_on_where_it_stopped() -> None:
    policies = Policies(minimum_run_seconds=0.0)
    arrivals = [arrival("low", priority=10), arrival("high", at=40, seconds=50)]
    outcome = simulate(Setup(nodes=machines(), policies=policies), arrivals)
    assert spans(outcome) == {"low": (0.0, 150.0), "high": (40.0, 90.0)}
    assert summarise(outcome, machines()).evictions == 1


def test_arrivals_are_seen_at_ticks() -> None:
    outcome = simulate(Setup(nodes=machines(), tick_seconds=60.0), [arrival("a", at=61)])
    assert spans(outcome)["a"][0] == 120.0


def test_a_simulation_ends_although_a_job_can_never_start() -> None:
    outcome = simulate(Setup(nodes=machines()), [arrival("huge", gpus=9), arrival("a")])
    assert {each.name: each.phase for each in outcome.jobs} == {"huge": Phase.QUEUED, "a": Phase.COMPLETED}


def test_two_runs_are_the_same() -> None:
    arrivals = [arrival(f"j{i}", at=7.0 * i, seconds=50 + i % 5, gpus=1 + i % 8) for i in range(60)]
    setup = Setup(nodes=machines(2))
    assert simulate(setup, arrivals) == simulate(setup, arrivals)


def test_a_summary_counts_what_happened() -> None:
    outcome = simulate(Setup(nodes=machines()), [arrival("a"), arrival("b"), arrival("c", at=2000, gpus=4)])
    summary = summarise(outcome, machines())
    assert (summary.jobs, summary.completed, summary.evictions) == (3, 3, 0)
    assert summary.mean_wait == pytest.approx(100 / 3)
    assert summary.mean_completion == pytest.approx((100 + 200 + 100) / 3)
    assert summary.makespan == 2100.0
    assert summary.utilisation == pytest.approx((800 + 800 + 400) / (8 * 2100))
    assert "mean wait" in table({"ours": summary})


def test_policies_are_compared_side_by_side() -> None:
    arrivals = [arrival("long", seconds=900), arrival("next", at=1, seconds=500), arrival("short", at=2, seconds=10)]
    rules = {"age": Policies(), "shortest": Policies(job_order=ShortestFirst())}
    workload = Workload(arrivals=arrivals, nodes=machines())
    outcomes = {name: workload.run(each) for name, each in rules.items()}
    assert spans(outcomes["age"])["short"][0] == 1400.0
    assert spans(outcomes["shortest"])["short"][0] == 900.0
    header, *_ = table({name: summarise(each, machines()) for name, each in outcomes.items()}).splitlines()
    assert header.split() == ["age", "shortest"]


def test_runs_are_plotted(tmp_path: Path) -> None:
    plot_runs(new_figure(), {"ours": simulate(Setup(nodes=machines()), [arrival("a")])}, tmp_path / "runs.png")
    assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_cannot_be_written_is_an_error_of_the_user(tmp_path: Path) -> None:
    outcome = simulate(Setup(nodes=machines()), [arrival("a")])
    with pytest.raises(InvalidInputError, match="cannot be written"):
        plot_runs(new_figure(), {"ours": outcome}, tmp_path / "runs.no-such-kind")


def test_a_plot_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InvalidInputError, match=r"gangline\[plot\]"):
        new_figure()


BLOCKED = [
    arrival("half", seconds=1000, gpus=4),
    arrival("wide", at=1, seconds=100),
    arrival("long", at=2, seconds=5000, gpus=4),
    arrival("short", at=3, seconds=50, gpus=4),
]
"""The second needs everything; the fourth would be done before it could start, the third would not."""


@pytest.mark.parametrize(
    ("rules", "want_order"),
    [
        ("fifo", ["half", "wide", "long", "short"]),
        ("fifo+backfill", ["half", "short", "wide", "long"]),
        ("shortest-first", ["half", "short", "wide", "long"]),
        ("least-attained-service", ["half", "long", "wide", "short"]),
        ("ours", ["half", "long", "short", "wide"]),
    ],
)
def test_every_set_of_rules_is_what_its_name_says(rules: str, want_order: list[str]) -> None:
    outcome = Workload(arrivals=BLOCKED, nodes=machines()).run(RULES[rules])
    started = {each.name: each.started_at or 0.0 for each in outcome.jobs}
    assert sorted(started, key=lambda name: (started[name], want_order.index(name))) == want_order


def test_queues_that_a_trace_names_exist(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "at,seconds,name,queue,priority,replicas,gpus,cpus,memory_mib\n0,10,a,x,50,1,8,1,1\n0,10,b,y,50,1,8,1,1\n"
    )
    workload = read_workload(path, TraceFormat.CSV)
    assert [queue.name for queue in workload.queues] == ["x", "y"]
    assert all(each.phase is Phase.COMPLETED for each in workload.run(Policies(), machines()).jobs)
    assert len(read_workload(path, TraceFormat.CSV, limit=1).arrivals) == 1


def test_openb_pods_can_be_jobs_that_end(tmp_path: Path) -> None:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,64,2,P100\n")
    path = tmp_path / "pods.csv"
    path.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "a,4000,1,1,500,P100|V100,LS,Running,5,105,25\nb,4000,1,2,1000,,LS,Failed,10,40,\n"
    )
    workload = read_workload(path, TraceFormat.OPENB)
    assert [(each.at, each.seconds) for each in workload.arrivals] == [(5.0, 80.0), (10.0, 30.0)]
    assert workload.arrivals[0].spec.placement.gpu_types == ("P100", "V100")
    assert spans(workload.run(Policies())) == {"a": (5.0, 85.0), "b": (85.0, 115.0)}


def test_a_trace_that_is_not_there_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read_workload(tmp_path / "absent.csv", TraceFormat.CSV)


def test_nodes_are_described_in_a_word() -> None:
    found = parse_nodes("2x8xh200", "1x0")
    assert [(node.name, node.capacity.gpus, node.gpu_type) for node in found] == [
        ("new-h200-000", 8, "h200"),
        ("new-h200-001", 8, "h200"),
        ("new-002", 0, None),
    ]


@pytest.mark.parametrize("text", ["", "8", "0x8", "8x8x", "axb", "8x8xH200", "-1x2"])
def test_words_that_describe_no_nodes_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="8x8xh200"):
        parse_nodes(text)


def test_our_own_trace_can_be_written_and_read_again(tmp_path: Path) -> None:
    arrivals = [arrival("a"), arrival("b", at=5, gpus=2, priority=70)]
    write_plain(tmp_path / "trace.csv", arrivals)
    assert list(read_plain(tmp_path / "trace.csv")) == arrivals


def test_a_trace_error_names_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "philly.csv"
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 00:00:00,x,1,1,vc\n")
    with pytest.raises(TraceError, match=r"philly\.csv:2: duration: 'x' is not a number"):
        list(read_philly(path))
    path.write_text("timestamp,duration\n")
    with pytest.raises(TraceError, match="columns are missing: num_gpus, cluster"):
        list(read_philly(path))


def test_philly_jobs_become_replicas_of_at_most_a_node(tmp_path: Path) -> None:
    path = tmp_path / "philly.csv"
    path.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-01 00:01:00,50,16,800,abc\n2017-10-01 00:00:00,60,1,60,abc\n"
    )
    first, second = read_philly(path)
    assert (first.at, first.seconds, first.spec.roles[0].replicas) == (0.0, 60.0, 1)
    assert (second.at, second.spec.roles[0].replicas, second.spec.roles[0].resources.gpus) == (60.0, 2, 8.0)


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param("nan,1,a,,50,1,1,1,1", r"jobs\.csv:2: at: 'nan' is not a number", id="no number"),
        pytest.param("0,inf,a,,50,1,1,1,1", r"jobs\.csv:2: seconds: 'inf' is not a number", id="no end"),
        pytest.param("-1,1,a,,50,1,1,1,1", r"jobs\.csv:2: at: time begins at 0", id="before the beginning"),
        pytest.param("0,1,a", r"jobs\.csv:2: queue: the line ends early", id="short line"),
        pytest.param("0,1,a,,50,1,1,1,1\n0,1,b,,50,0,1,1,1", r"jobs\.csv:3: .*replicas", id="no replicas"),
        pytest.param("0,1,A b,,50,1,1,1,1", r"jobs\.csv:2: .*not a valid name", id="name"),
        pytest.param("0,1,a,,50,1,1,1,1\n0,1,a,,50,1,1,1,1", r"jobs\.csv:3: name: .* 'a' already", id="twice"),
        pytest.param("\0", r"jobs\.csv", id="zero byte"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(tmp_path: Path, lines: str, want: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"at,seconds,name,queue,priority,replicas,gpus,cpus,memory_mib\n{lines}\n")
    with pytest.raises(TraceError, match=want):
        list(read_plain(path))


def test_what_is_no_text_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(b"\xff\xfe\0")
    with pytest.raises(TraceError, match="not a table of text"):
        list(read_plain(path))


def test_jobs_that_take_no_time_are_summarised(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("at,seconds,name,queue,priority,replicas,gpus,cpus,memory_mib\n0,0,a,,50,1,1,1,1\n")
    nodes = parse_nodes("1x4")
    outcome = simulate(Setup(nodes=nodes), read_plain(path))
    assert summarise(outcome, nodes).completed == 1
    assert summarise(outcome, nodes).fairness == 1.0
