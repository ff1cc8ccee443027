"""Small traces in the formats of the published ones: what is read, and how fast jobs then run where."""

import json
from pathlib import Path

import pytest

from gangline.errors import InvalidInputError
from gangline.model import Gang, GangId, GangReplica, JobId, Phase, ReplicaId, RoleName
from gangline.simulator import RULES, TraceFormat, Workload, parse_nodes, read_workload
from gangline.simulator.run import Outcome
from gangline.simulator.traces import TraceError, read_openb_pods

STEPS = "local_bsz,step_time,sync_time,"


def spans(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """When every job first got machines and when it ended."""
    assert all(each.phase is Phase.COMPLETED for each in outcome.jobs)
    return {each.name: (each.started_at or 0.0, each.history[-1].at) for each in outcome.jobs}


def run(workload: Workload, *nodes: str) -> dict[str, tuple[float, float]]:
    return spans(workload.run(RULES["fifo"], parse_nodes(*nodes)))


@pytest.fixture
def sia(tmp_path: Path) -> Path:
    """Two jobs of 100 steps; a step takes 4 s on aws and 1 s on dgx."""
    folder = tmp_path / "traces" / "bert"
    folder.mkdir(parents=True)
    for kind, seconds in (("aws", 4), ("dgx", 1)):
        (folder / f"placements-{kind}.csv").write_text(f"{STEPS}placement\n12,{seconds},0,1\n12,{seconds},0,2\n")
        (folder / f"scalability-{kind}.csv").write_text(f"{STEPS}num_nodes,num_replicas\n12,{seconds},0,1,1\n")
    (folder / "validation-12.csv").write_text(
        "progress,iteration,metric,grad_sqr,grad_var\n50,50,1,1,1\n100,100,1,1,1\n"
    )
    path = tmp_path / "workloads" / "some" / "workload-1.csv"
    path.parent.mkdir(parents=True)
    path.write_text("name,time,application,num_replicas,batch_size\nbert-0,0,bert,2,12\n")
    return path


@pytest.mark.parametrize(
    ("nodes", "want_seconds"),
    [(("1x2xaws",), 400), (("1x2xdgx",), 100), (("1x1xdgx", "1x1xaws"), 400), (("1x2",), 400)],
    ids=["slow type", "fast type", "as slow as the slower of two", "T4 where no type is named"],
)
def test_sia_jobs_run_as_fast_as_their_gpu_type_and_pay_for_their_start(
    sia: Path, nodes: tuple[str, ...], want_seconds: float
) -> None:
    workload = read_workload(sia, TraceFormat.SIA)
    # Seen at the first tick, 60 s; a bert job takes 120 s to start.
    assert run(workload, *nodes)["bert-0"] == pytest.approx((60.0, 180.0 + want_seconds))
    assert workload.arrivals[0].spec.policy.expected_seconds == pytest.approx(400.0)


def test_a_type_that_was_not_measured_is_named_with_those_that_were(sia: Path) -> None:
    with pytest.raises(InvalidInputError, match="'h200'") as refusal:
        run(read_workload(sia, TraceFormat.SIA), "1x2xh200")
    assert "aws, dgx" in str(refusal.value.expected)


RATES = {
    "v100": {"('LM', 1)": {"null": 10.0, "('LM', 1)": [5.0, 5.0]}, "('LM', 2)": {"null": 8.0}},
    "v100_unconsolidated": {"('LM', 2)": {"null": 4.0}},
    "k80": {"('LM', 1)": {"null": 0.0}, "('LM', 2)": {"null": 0.0}, "('A3C', 1)": {"null": 2.0}},
    "k80_unconsolidated": {},
}
SIMULATED = "LM\tcd x\t-n\t1\t800\t5.000000\t{gpus}\n"
CLUSTER = "LM\tpython\tx\t-n\t1\t800\t{gpus}\t1\t-1.000000\t5\n"
SHOCKWAVE = "LM\tpython\tx\t-n\t1\t800\t{gpus}\tgns\t1\t-1.000000\t80\t5\n"


def stepped(tmp_path: Path, text: str, trace: TraceFormat) -> Workload:
    folder = tmp_path / "seed"
    folder.mkdir()
    place = (
        folder / "tacc_throughputs.json" if trace is TraceFormat.SHOCKWAVE else tmp_path / "simulation_throughputs.json"
    )
    place.write_text(json.dumps(RATES))
    (folder / "some.trace").write_text(text)
    return read_workload(folder / "some.trace", trace)


@pytest.mark.parametrize(
    ("text", "trace"),
    [(SIMULATED, TraceFormat.GAVEL), (CLUSTER, TraceFormat.GAVEL), (SHOCKWAVE, TraceFormat.SHOCKWAVE)],
    ids=["gavel", "gavel's cluster", "shockwave"],
)
@pytest.mark.parametrize(
    ("gpus", "nodes", "want_seconds"),
    [(1, "1x1xv100", 80.0), (2, "1x2xv100", 100.0), (2, "2x1xv100", 100.0), (3, "1x4xv100", 100.0)],
    ids=["one GPU", "two on one node", "two where no node has two", "a number not measured"],
)
def test_steps_are_made_at_the_rate_of_model_and_gpus(
    tmp_path: Path, text: str, trace: TraceFormat, gpus: int, nodes: str, want_seconds: float
) -> None:
    workload = stepped(tmp_path, text.format(gpus=gpus), trace)
    assert run(workload, nodes) == {"job-0": (5.0, 5.0 + want_seconds)}


def test_a_gang_on_more_nodes_than_it_needs_has_the_rate_of_one_that_lies_apart(tmp_path: Path) -> None:
    workload = stepped(tmp_path, SIMULATED.format(gpus=2), TraceFormat.GAVEL)
    nodes = parse_nodes("2x2xv100")
    assert workload.make_work is not None
    replicas = tuple(
        GangReplica(id=ReplicaId(RoleName("worker"), index), node=node.name) for index, node in enumerate(nodes)
    )
    gang = Gang(id=GangId(JobId("job-0"), 1), spec=workload.arrivals[0].spec, replicas=replicas)
    assert workload.make_work(nodes).seconds_left(gang) == 200.0


def test_a_model_keeps_off_gpus_that_it_does_not_run_on(tmp_path: Path) -> None:
    workload = stepped(tmp_path, SIMULATED.format(gpus=1), TraceFormat.GAVEL)
    assert workload.arrivals[0].spec.placement.gpu_types == ("v100",)
    assert run(workload, "1x1xk80", "1x1xv100") == {"job-0": (5.0, 85.0)}


@pytest.mark.parametrize(
    ("text", "want"),
    [("LM\t1\n", "7, 10 or 12 columns"), (SIMULATED.replace("LM", "GPT").format(gpus=1), "'GPT'")],
    ids=["too few columns", "a model without a rate"],
)
def test_a_line_that_is_no_job_is_named(tmp_path: Path, text: str, want: str) -> None:
    with pytest.raises(TraceError) as refusal:
        stepped(tmp_path, text, TraceFormat.GAVEL)
    assert want in str(refusal.value) + str(refusal.value.expected)
    assert refusal.value.line == 1


def test_rates_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tacc_throughputs.json").write_text('{"v100": {"LM": 1}}')
    (tmp_path / "some.trace").write_text("")
    with pytest.raises(TraceError, match="not a table of steps per second"):
        read_workload(tmp_path / "some.trace", TraceFormat.SHOCKWAVE)


def test_tiresias_jobs_may_share_an_id(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
        "7,4,10,606,vgg19,164,30\n7,8,30,1,resnet_50,20,1\n"
    )
    assert run(read_workload(path, TraceFormat.TIRESIAS), "1x8") == {
        "vgg19-0": (10.0, 174.0),
        "resnet-50-1": (174.0, 194.0),
    }


def test_dlrm_instances_that_outlive_the_trace_run_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "instance_sn,role,cpu_request,gpu_request,memory_request,creation_time,scheduled_time,deletion_time\n"
        "instance_0,HN,12,1,120.0,,,\ninstance_1,CN,4,0,1.5,30,31,200\n"
    )
    workload = read_workload(path, TraceFormat.DLRM)
    first, second = workload.arrivals
    assert (first.at, first.seconds, second.at, second.seconds) == (0.0, 200.0, 30.0, 170.0)
    assert (second.spec.roles[0].resources.memory_mib, second.spec.roles[0].resources.gpus) == (1536, 0)
    assert run(workload) == {"instance-0": (0.0, 200.0), "instance-1": (30.0, 200.0)}


def test_openb_pods_without_types_or_times_come_one_by_one_and_stay(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np-0,4000,100,1,500\np-1,4000,100,2,1000\n")
    assert [shape.gpu_types for shape in read_openb_pods(path)] == [(), ()]
    arrivals = read_workload(path, TraceFormat.OPENB).arrivals
    assert [(each.at, each.seconds) for each in arrivals] == [(0.0, 2.0), (1.0, 2.0)]
    assert [each.spec.roles[0].resources.gpu_millis for each in arrivals] == [500, 2000]
