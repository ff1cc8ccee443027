"""Sweeps that search, as their users meet them: budgets, trials added by hand, warm starts, ends with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell

PROGRAM = """
import json, os
from gangline import runtime
x = float(json.loads(os.environ["TRIAL_PARAMETERS"])["x"])
runtime.report(loss=(x - 1) ** 2, size=x, step=1)
"""


def write_search(place: Path, name: str, *, head: str, program: str = PROGRAM, gate: str = "") -> str:
    place.mkdir(exist_ok=True)
    (place / "train.py").write_text(gate + program)
    file = place / f"{name}.yaml"
    file.write_text(
        f"""
kind: Sweep
metadata: {{name: {name}}}
spec:
  parallelism: 1
  seed: 3
  {head}
  parameters: {{x: {{min: -5, max: 5}}}}
  template:
    spec:
      code: .
      command: [{Shell.command()[0]}, train.py]
      resources: {{cpu: 100m, memory: 128Mi}}
"""
    )
    return str(file)


TPE = """sampler: {name: tpe, n_startup_trials: 3}
  objective: {metric: loss, goal: minimize}
  budget: {trials: 6}"""


@pytest.fixture(scope="module")
def searched(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search that has used its budget."""
    finished = shell.run("sweep", "-f", write_search(tmp_path_factory.mktemp("search"), "searched", head=TPE), "--wait")
    assert finished.returncode == 0, finished.stderr
    assert "searched is finished (6 COMPLETED); all 6 trials of its budget were tried" in finished.stderr
    return "searched"


def shown(shell: Shell, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shell.run("sweep", "get", name, "-o", "json").stdout)
    return found


def test_a_search_tries_what_optuna_alone_would_try(shell: Shell, searched: str) -> None:
    import optuna

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=3, n_startup_trials=3))
    want = []
    for _ in range(6):
        trial = study.ask()
        want.append(trial.suggest_float("x", -5, 5))
        study.tell(trial, (want[-1] - 1) ** 2)
    status = shown(shell, searched)["status"]
    assert [float(trial["values"]["x"]) for trial in status["trials"]] == want
    assert status["end"]["reason"] == "TrialsUsed"


def test_values_are_added_by_hand(shell: Shell, tmp_path: Path) -> None:
    opened = tmp_path / "go"
    gate = f"import pathlib, time\nwhile not pathlib.Path({str(opened)!r}).exists(): time.sleep(0.05)\n"
    file = write_search(tmp_path / "code", "by-hand", head=TPE.replace("6", "2"), gate=gate)
    assert shell.run("sweep", "-f", file).returncode == 0
    outside = shell.run("sweep", "add", "by-hand", "x=7")
    assert outside.returncode != 0
    assert "x: '7' is outside the space; expected a number from -5 to 5" in outside.stderr
    assert "'x' is not of the form PARAMETER=VALUE" in shell.run("sweep", "add", "by-hand", "x").stderr
    added = shell.run("sweep", "add", "by-hand", "x=1")
    assert added.returncode == 0, added.stderr
    opened.touch()
    ended = shell.run("sweep", "wait", "by-hand")
    assert ended.returncode == 0, ended.stderr
    trials = shown(shell, "by-hand")["status"]["trials"]
    assert [trial["values"]["x"] == "1" for trial in trials] == [False, True, False]
    late = shell.run("sweep", "add", "by-hand", "x=1")
    assert "tries no more" in late.stderr


def test_a_search_begins_with_what_another_learnt(shell: Shell, searched: str, tmp_path: Path) -> None:
    file = write_search(tmp_path, "warm", head=TPE)
    warm = shell.run("sweep", "-f", file, "--warm-start", searched, "--wait")
    assert warm.returncode == 0, warm.stderr
    known, before = shown(shell, "warm")["spec"]["known"], shown(shell, searched)["status"]["trials"]
    assert [each["values"] for each in known] == [each["values"] for each in before]
    assert [each["results"]["loss"] for each in known] == [each["result"] for each in before]


def test_a_target_ends_the_search(shell: Shell, tmp_path: Path) -> None:
    head = TPE.replace("minimize}", "minimize, target: 100}")
    ended = shell.run("sweep", "-f", write_search(tmp_path, "target", head=head), "--wait")
    assert "target is finished (1 COMPLETED); trial 0 reached loss" in ended.stderr


@pytest.mark.parametrize(
    ("name", "program", "want"),
    [
        pytest.param("nan", "from gangline import runtime; runtime.report(loss=float('nan'))", "2 ended", id="NaN"),
        pytest.param("silent", "print('nothing')", "2 ended without a finite number for 'loss'", id="never reported"),
        pytest.param("failing", "raise SystemExit(3)", "2 failed (budget.failures is 2)", id="always fails"),
    ],
)
def test_what_never_succeeds_ends_with_a_reason(
    shell: Shell, tmp_path: Path, name: str, program: str, want: str
) -> None:
    head = TPE.replace("trials: 6", "trials: 6, failures: 2")
    ended = shell.run("sweep", "-f", write_search(tmp_path, name, head=head, program=program), "--wait")
    assert ended.returncode == 1
    assert f"{name} is failed" in ended.stderr
    assert want in ended.stderr


def test_a_search_without_any_result_says_so(shell: Shell, tmp_path: Path) -> None:
    head = TPE.replace("trials: 6", "trials: 2")
    ended = shell.run("sweep", "-f", write_search(tmp_path, "mute", head=head, program="print('nothing')"), "--wait")
    assert ended.returncode == 1
    assert "mute is failed (2 COMPLETED); none of its 2 trials reported a finite number for 'loss'" in ended.stderr


def test_what_cannot_be_searched_is_refused_at_once(shell: Shell, tmp_path: Path) -> None:
    head = TPE.replace("n_startup_trials", "speed")
    refused = shell.run("sweep", "-f", write_search(tmp_path, "refused", head=head))
    assert refused.returncode != 0
    assert "speed" in refused.stderr


EPOCHS = """
import json, os, time
from pathlib import Path
from gangline import runtime
x = float(json.loads(os.environ["TRIAL_PARAMETERS"])["x"])
kept = Path(os.environ["CHECKPOINT_DIR"]) / "epoch"
first = int(kept.read_text()) if kept.exists() else 0
print("begins at", first, flush=True)
for epoch in range(first + 1, 10):
    print("epoch", epoch, flush=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(str(epoch))
    runtime.report(loss=abs(x) + 1 / epoch, step=epoch)
    time.sleep(1)
"""


def test_hopeless_trials_rest_and_the_best_goes_on_from_its_checkpoint(shell: Shell, tmp_path: Path) -> None:
    head = """sampler: random
  objective: {metric: loss, goal: minimize}
  budget: {trials: 3}
  stopping: {rule: asha, first: 1, factor: 3, last: 9}"""
    ended = shell.run("sweep", "-f", write_search(tmp_path, "asha", head=head, program=EPOCHS), "--wait")
    assert "asha is finished (1 COMPLETED, 2 CANCELLED)" in ended.stderr
    trials = shown(shell, "asha")["status"]["trials"]
    best = min(trials, key=lambda trial: abs(float(trial["values"]["x"])))
    assert [trial["phase"] for trial in trials if trial["number"] == best["number"]] == ["COMPLETED"]
    assert sorted(trial.get("stopped", False) for trial in trials) == [False, True, True]
    said = {trial["number"]: shell.run("logs", trial["job"]).stdout for trial in trials}
    assert sum(text.count("epoch") for text in said.values()) < 27, "the others did not run to their end"
    assert best["number"] == 0, "with this seed; it rests until the two others, one after the other, have been judged"
    assert "begins at" in said[0]
    assert "begins at 0" not in said[0]
    assert ended.returncode == 0


def test_the_winner_is_written_as_a_job_file_that_can_be_submitted(shell: Shell, searched: str, tmp_path: Path) -> None:
    (found,) = json.loads(shell.run("sweep", "best", searched, "-o", "json").stdout)
    trials = shown(shell, searched)["status"]["trials"]
    assert found["result"] == min(trial["result"] for trial in trials)
    file = tmp_path / "winner.yaml"
    file.write_text(shell.run("sweep", "best", searched, "-o", "job").stdout)
    submitted = shell.run("submit", "-f", str(file), "--wait")
    assert submitted.returncode == 0, submitted.stderr
    loss = shell.run("metrics", f"{searched}-best", "--name", "loss", "-o", "json")
    assert json.loads(loss.stdout)[-1]["value"] == found["result"]


def test_results_are_tables_csv_and_pictures(shell: Shell, searched: str, tmp_path: Path) -> None:
    top = shell.run("sweep", "best", searched, "-n", "2").stdout.splitlines()
    assert top[0].split() == ["TRIAL", "X", "LOSS", "PHASE"]
    assert len(top) == 3
    exported = shell.run("sweep", "export", searched).stdout.splitlines()
    assert (exported[0], len(exported)) == ("trial,x,loss,phase", 7)
    lines = shell.run("sweep", "history", searched, "--csv").stdout.splitlines()
    best = [float(line.split(",")[2]) for line in lines[1:]]
    assert len(best) == 6
    assert best == sorted(best, reverse=True)
    picture = tmp_path / "history.png"
    assert shell.run("sweep", "history", searched, "--png", str(picture)).returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    slices = shell.run("sweep", "slices", searched, "--csv").stdout.splitlines()
    assert slices[0] == "parameter,value,result,trial"
    values = [float(line.split(",")[1]) for line in slices[1:]]
    assert values == sorted(values)
    assert len(values) == 6
    assert "'y' does not vary" in shell.run("sweep", "slices", searched, "--parameter", "y").stderr
    lines = shell.run("sweep", "coordinates", searched).stdout.splitlines()
    assert lines[0].split() == ["TRIAL", "X", "RESULT"]
    places = {line.split()[0]: float(line.split()[1]) for line in lines[1:]}
    assert places == {
        line.split(",")[3]: pytest.approx((float(line.split(",")[1]) + 5) / 10, abs=1e-3) for line in slices[1:]
    }
    for view in ("slices", "coordinates"):
        picture = tmp_path / f"{view}.png"
        drawn = shell.run("sweep", view, searched, "--png", str(picture))
        assert drawn.returncode == 0, drawn.stderr
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert "no front" in shell.run("sweep", "best", searched, "--png", "front.png").stderr
    few = shell.run("sweep", "importance", searched)
    assert "it takes ten results" in few.stderr


def test_several_objectives_have_a_front_and_parameters_their_importance(shell: Shell, tmp_path: Path) -> None:
    head = """sampler: {name: nsga-ii, population_size: 4}
  objective: [{metric: loss, goal: minimize}, {metric: size, goal: maximize}]
  budget: {trials: 10}"""
    file = write_search(tmp_path, "both", head=head)
    Path(file).write_text(Path(file).read_text().replace("parallelism: 1", "parallelism: 2"))
    ended = shell.run("sweep", "-f", file, "--wait")
    assert ended.returncode == 0, ended.stderr
    status = shown(shell, "both")["status"]
    points = {trial["number"]: (trial["results"]["loss"], trial["results"]["size"]) for trial in status["trials"]}
    want = [
        number
        for number, (loss, size) in points.items()
        if not any(a <= loss and b >= size and (a, b) != (loss, size) for a, b in points.values())
    ]
    assert status["front"] == want
    assert len(shell.run("sweep", "best", "both").stdout.splitlines()) == len(want) + 1
    assert "x  " in shell.run("sweep", "importance", "both").stdout
    for view in ("best", "importance"):
        picture = tmp_path / f"{view}.png"
        drawn = shell.run("sweep", view, "both", "--png", str(picture))
        assert drawn.returncode == 0, drawn.stderr
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(("trials: 6", "trials: 0"), "spec.budget.trials: a budget of 0 tries nothing", id="budget of 0"),
        pytest.param(("{x: {min: -5, max: 5}}", "{}"), "spec.parameters: nothing to vary", id="nothing to vary"),
        pytest.param(("{min: -5, max: 5}", "{min: 5, max: -5}"), "the space is empty: min is above max", id="empty"),
        pytest.param(("{x: {min: -5, max: 5}}", "{x: []}"), "no values to try", id="no values"),
        pytest.param(
            (
                "{x: {min: -5, max: 5}}",
                "{a: [u, v], b: {values: [p, q], when: {a: u}}, x: {values: [1, 2], when: {a: v, b: p}}}",
            ),
            "the conditions contradict each other: no value of 'a' satisfies all of them",
            id="contradiction",
        ),
    ],
)
def test_a_search_that_cannot_be_is_refused_with_its_field(
    shell: Shell, tmp_path: Path, change: tuple[str, str], want: str
) -> None:
    file = Path(write_search(tmp_path, "impossible", head=TPE))
    file.write_text(file.read_text().replace(*change))
    refused = shell.run("sweep", "-f", str(file), "--wait")
    assert refused.returncode != 0
    assert want in refused.stderr
    assert "impossible" not in shell.run("sweep", "list").stdout
