"""``gangline simulate`` and ``gangline what-if``: the scheduler, asked before anything happens."""

import json
import sys
from pathlib import Path

import pytest

from gangline.cli.commands.simulate import FORMATS, POLICIES
from gangline.simulator import RULES, TraceFormat
from tests.cli.conftest import Here, Shell

TRACE = """at,seconds,name,queue,priority,replicas,gpus,cpus,memory_mib
0,1000,half,,50,4,1,1,1
1,100,wide,,50,8,1,1,1
2,50,short,,50,4,1,1,1
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def test_help_lists_what_the_simulator_knows() -> None:
    assert tuple(RULES) == POLICIES
    assert tuple(each.value for each in TraceFormat) == FORMATS


def test_policies_are_compared_side_by_side(here: Here, trace: Path, tmp_path: Path) -> None:
    picture = tmp_path / "runs.png"
    arguments = ("--trace", str(trace), "--nodes", "1x8", "--rules", "fifo,fifo+back")
    code, out, err = here("simulate", *arguments, "--plot", str(picture))
    assert code == 0, err
    rows = {line[:18].strip(): line[18:].split("  ") for line in out.splitlines()}
    assert out.splitlines()[0].split() == ["fifo", "fifo+backfill"]
    assert [cell.strip() for cell in rows["makespan"] if cell.strip()] == ["1150 s", "1100 s"]
    assert [cell.strip() for cell in rows["longest queue"] if cell.strip()] == ["2", "1"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_runs_are_drawn_in_the_terminal(here: Here, trace: Path) -> None:
    arguments = ("--trace", str(trace), "--nodes", "1x8", "--policy", "fifo", "--policy", "fifo+backfill", "--plot")
    code, out, err = here("simulate", *arguments)
    assert code == 0, err
    waits, took = out.index("share of jobs that waited"), out.index("share of jobs that took")
    assert waits < took
    queue = out.index("jobs that waited, over time")
    assert took < queue
    for plot in (out[waits:took], out[took:queue]):
        assert "fifo+backfill" in plot
        assert "0.3333" in plot
    assert "0s to 1098s" in out[waits:took]


def test_a_simulation_can_be_read_by_programs(here: Here, trace: Path) -> None:
    code, out, _ = here("simulate", "--trace", str(trace), "--nodes", "1x8", "--limit", "2", "-o", "json")
    found = json.loads(out)["ours"]
    assert code == 0
    assert (found["jobs"], found["completed"], found["median_completion"]) == (2, 2, 1049.5)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("--trace", "absent.csv"), "absent.csv"),
        (("--trace", "{trace}", "--nodes", "many"), "8x8xh200"),
        (("--trace", "{trace}", "--policy", "luck"), "luck"),
        (("--trace", "{trace}", "--format", "philly"), "columns are missing: timestamp"),
    ],
    ids=["no such trace", "nodes that are none", "an unknown policy", "a trace of another format"],
)
def test_a_simulation_that_cannot_be_is_an_error_of_the_user(
    here: Here, trace: Path, arguments: tuple[str, ...], want: str
) -> None:
    code, out, err = here("simulate", *(word.replace("{trace}", str(trace)) for word in arguments))
    assert (code, out) == (2, "")
    assert want in err


def test_a_missing_matplotlib_is_told_before_the_run(here: Here, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = here("simulate", "--trace", str(trace), "--plot", "x.png")
    assert code == 2
    assert "gangline[plot]" in err
    assert "simulating" not in err


@pytest.fixture
def eight_gpus(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(
        "metadata: {name: dreamt}\n"
        "spec: {replicas: 2, command: [sleep, '600'], resources: {cpu: 1, gpu: 4}, policy: {expected: 10m}}\n"
    )
    return str(path)


def test_what_if_says_why_a_job_would_not_start_and_submits_nothing(here: Here, eight_gpus: str) -> None:
    code, out, err = here("what-if", "-f", eight_gpus)
    assert code == 0, err
    assert "dreamt would not start." in out
    assert "'worker' replicas" in out
    assert "No other job would notice." in out
    assert "dreamt" not in here("list")[1]


def test_what_if_a_service_were_created_answers_for_its_fewest_replicas(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    spec = "spec: {model: 'model://digits', resources: {gpu: 1}, apart: true, replicas: {min: 2, max: 9}}"
    file.write_text(f"apiVersion: gangline.dev/v1\nkind: Service\nmetadata: {{name: dreamt}}\n{spec}\n")
    code, out, err = here("what-if", "-f", str(file))
    assert code == 0, err
    assert "dreamt-1-1 would not start." in out
    out = here("what-if", "-f", str(file), "--add-nodes", "2x8xh200")[1]
    nodes = {line.rpartition(" ")[2] for line in out.splitlines() if "would start now on" in line}
    assert len(nodes) == 2, out  # apart
    assert "dreamt" not in here("service", "list")[1]


def test_what_if_with_machines_not_yet_bought(here: Here, eight_gpus: str) -> None:
    here("submit", "--name", "hungry", "--gpus", "8", "--", "true")
    code, out, err = here("what-if", "-f", eight_gpus, "--add-nodes", "2x8xh200")
    assert code == 0, err
    assert "dreamt would start now on new-h200-" in out
    assert "hungry" in out
    (row,) = [line.split("  ") for line in out.splitlines() if line.startswith("hungry")]
    assert [cell.strip() for cell in row if cell] == ["hungry", "not in sight", "now", "would start"]
    found = json.loads(here("what-if", "--add-nodes", "1x8", "-o", "json")[1])
    assert [effect["name"] for effect in found["effects"]] == ["hungry"]
    assert found["effects"][0]["starts_at"] is None
    assert found["effects"][0]["would_start_at"].endswith("Z")
    here("delete", "hungry")


def test_what_if_things_were_otherwise(fresh_shell: Shell) -> None:
    (top,) = json.loads(fresh_shell.out("top", "node", "-o", "json"))
    cpus = top["node"]["capacity"]["cpu_millis"] // 1000
    fresh_shell.run("queue", "create", "research")
    for name in ("running", "first", "second"):
        job = {"metadata": {"name": name}, "spec": {"command": ["sleep", "600"], "resources": {"cpu": cpus}}}
        job["metadata"] |= {"queue": "research", "priority": "critical" if name == "running" else "normal"}
        job["spec"]["policy"] = {"expected": "10m"}
        fresh_shell.run("submit", "-f", "-", text_in=json.dumps(job))

    def changes(*options: str) -> dict[str, str]:
        rows = [line.split("  ") for line in fresh_shell.out("what-if", *options).splitlines()]
        cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
        return {row[0]: row[3] for row in cells if len(row) == 4 and row[0] != "WAITING"}

    assert changes("--priority", "second=90") == {"first": "10m later", "second": "10m earlier"}
    assert changes("--quota", f"research=limit:cpu={cpus - 1}") == {
        "first": "would not start",
        "second": "would not start",
    }
    assert changes("--remove-nodes", top["node"]["name"]) == {"first": "would not start", "second": "would not start"}
    assert changes("--replicas", "first=worker:2") == {"first": "would not start", "second": "10m earlier"}
    for wrong, want in (
        (("--quota", "research"), "QUEUE=FIELD:VALUE"),
        (("--quota", "nowhere=weight:2"), "nowhere"),
        (("--quota", "research=colour:red"), "colour"),
        (("--priority", "nobody=high"), "nobody"),
        (("--priority", "first=very"), "critical"),
        (("--replicas", "running=2"), "gangline scale"),
        (("--replicas", "first=chief:2"), "worker"),
        (("--remove-nodes", "mars"), "gangline top node"),
    ):
        assert want in fresh_shell.run("what-if", *wrong).stderr


def test_what_if_about_nothing_is_refused(here: Here) -> None:
    code, _, err = here("what-if")
    assert code == 2
    assert "--add-nodes" in err


def test_explain_predicts_the_start_of_a_job_far_back_in_the_line(fresh_shell: Shell) -> None:
    nodes = json.loads(fresh_shell.out("top", "node", "-o", "json"))
    cpus = str(max(top["node"]["capacity"]["cpu_millis"] for top in nodes) // 1000)
    for name in ("first", "second", "third"):
        job = {"metadata": {"name": name}, "spec": {"command": ["sleep", "600"], "resources": {"cpu": cpus}}}
        job["spec"]["policy"] = {"expected": "10m"}
        fresh_shell.run("submit", "-f", "-", text_in=json.dumps(job))
    said = fresh_shell.out("explain", "third")
    assert "Predicted start: in 19m" in said
    assert "It is number 2 of 2 in queue 'default'." in said
    assert "Ahead of it: second (1 replica), because it was submitted earlier." in said
    assert "Predicted start" not in fresh_shell.out("explain", "third", "--no-forecast")
