"""The real controller, lifecycle and scheduler on a virtual clock."""

from pathlib import Path

import pytest

from gangline.model import JobSpec, Node, NodeName, Phase, Policy, Resources, RoleName, RoleSpec, Timestamp
from gangline.scheduling import Constraint, Policies
from gangline.scheduling.plugins.orders import ShortestFirst
from gangline.simulator.report import plot_waits, summarise, table
from gangline.simulator.run import Outcome, Setup, compare, simulate
from gangline.simulator.traces import Arrival, TraceError, read_philly, read_plain, write_plain
from gangline.simulator.whatif import parse_nodes, what_if
from tests.scheduling.builders import NOW, job, nodes, role, running


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
    outcomes = compare(Setup(nodes=machines()), arrivals, rules)
    assert spans(outcomes["age"])["short"][0] == 1400.0
    assert spans(outcomes["shortest"])["short"][0] == 900.0
    header, *_ = table({name: summarise(each, machines()) for name, each in outcomes.items()}).splitlines()
    assert header.split() == ["age", "shortest"]


def test_waits_are_plotted(tmp_path: Path) -> None:
    plot_waits({"ours": simulate(Setup(nodes=machines()), [arrival("a")])}, tmp_path / "waits.svg")
    assert (tmp_path / "waits.svg").stat().st_size > 1000


def test_our_own_trace_can_be_written_and_read_again(tmp_path: Path) -> None:
    arrivals = [arrival("a"), arrival("b", at=5, gpus=2, priority=70)]
    write_plain(tmp_path / "trace.csv", arrivals)
    assert list(read_plain(tmp_path / "trace.csv")) == arrivals


def test_a_trace_error_names_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "philly.csv"
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 00:00:00,x,1,1,vc\n")
    with pytest.raises(TraceError, match=r"philly\.csv:2: duration: 'x' is no number"):
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


def test_what_if_says_where_and_when_a_job_would_start() -> None:
    busy = running(job("x", role(8), expected_seconds=5000), {"n0": 8}, since=1000)
    answer = what_if(job("j", role(8)).spec, nodes=nodes(1), jobs=[busy], queues=(), now=NOW)
    assert answer.starts_at == NOW + 4000
    assert set(answer.placement.values()) == {"n0"}
    assert answer.explanation is not None
    assert answer.explanation.constraint is Constraint.RESOURCES


def test_what_if_says_who_would_be_stopped() -> None:
    busy = running(job("x", role(8), priority=1), {"n0": 8})
    answer = what_if(job("j", role(8)).spec, nodes=nodes(1), jobs=[busy], queues=(), now=NOW)
    assert (answer.starts_at, [each.job_id for each in answer.evictions]) == (NOW, ["x"])


def test_what_if_with_machines_not_yet_bought() -> None:
    busy = running(job("x", role(8)), {"n0": 8})
    more = [*nodes(1), *parse_nodes("1x8xh200")]
    answer = what_if(job("j", role(8)).spec, nodes=more, jobs=[busy], queues=(), now=NOW)
    assert answer.starts_at == NOW
    assert set(answer.placement.values()) == {"new-h200-0"}


def test_what_if_a_job_could_never_start() -> None:
    answer = what_if(job("j", role(9)).spec, nodes=nodes(1), jobs=[], queues=(), now=NOW)
    assert answer.starts_at is None
