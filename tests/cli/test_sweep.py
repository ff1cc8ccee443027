"""``gangline sweep`` and ``gangline chaos`` as their users meet them."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Here, Shell
from tests.cli.test_terminal import at_terminal

PROGRAM = """
import sys
from gangline import runtime
for step in (1, 2):
    runtime.report(accuracy=float(sys.argv[1]) * step, step=step)
"""


def write_sweep(place: Path, name: str, *, program: str = PROGRAM, command: str = "") -> str:
    place.mkdir(exist_ok=True)
    (place / "train.py").write_text(program)
    python = Shell.command()[0]
    file = place / "sweep.yaml"
    file.write_text(
        f"""
kind: Sweep
metadata: {{name: {name}}}
spec:
  parallelism: 2
  objective: {{metric: accuracy}}
  parameters: {{rate: [0.1, 0.4, 0.2]}}
  template:
    spec:
      code: .
      command: [{command or f"{python}, train.py"}, $(rate)]
      resources: {{cpu: 100m, memory: 128Mi}}
"""
    )
    return str(file)


@pytest.fixture(scope="module")
def done(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A sweep that has run to its end."""
    finished = shell.run("sweep", "-f", write_sweep(tmp_path_factory.mktemp("sweep"), "done"), "--wait")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "done\n"
    assert "done is finished (3 COMPLETED); best: accuracy 0.8 with rate=0.4" in finished.stderr
    return "done"


def test_following_prints_a_line_for_every_phase(shell: Shell, tmp_path: Path) -> None:
    followed = shell.run("sweep", "-f", write_sweep(tmp_path, "written"), "--name", "plain", "--follow")
    assert followed.returncode == 0, followed.stderr
    lines = followed.stdout.splitlines()
    assert lines[0] == "plain"
    ends = [line.split() for line in lines if "COMPLETED" in line]
    assert {tuple(end[:4]) for end in ends} == {
        ("plain-0", "rate=0.1", "COMPLETED", "0.2"),
        ("plain-1", "rate=0.4", "COMPLETED", "0.8"),
        ("plain-2", "rate=0.2", "COMPLETED", "0.4"),
    }
    assert ends[-1][-1] == "3/3"


def test_a_terminal_gets_a_live_table(shell: Shell, tmp_path: Path) -> None:
    code, seen = at_terminal(shell, "sweep", "-f", write_sweep(tmp_path, "live-grid"), "--follow")
    assert code == 0
    for words in ("TRIAL", "RATE", "ACCURACY", "live-grid-2", "COMPLETED", "0.8 *"):
        assert words in seen, words


def test_a_sweep_with_a_failed_trial_does_not_exit_with_0(shell: Shell, tmp_path: Path) -> None:
    file = write_sweep(tmp_path, "fails", program="import sys; sys.exit(sys.argv[1] == '0.4')")
    followed = shell.run("sweep", "-f", file, "--follow")
    assert followed.returncode == 1
    assert "2 COMPLETED, 1 FAILED" in followed.stderr
    assert "\n1 FAILED with ReplicaFailed: worker-0" in followed.stderr, "and says why"


def test_sweeps_are_listed_and_shown(here: Here, done: str) -> None:
    listed = next(line for line in here("sweep", "list")[1].splitlines() if line.startswith("done"))
    assert listed.split()[:3] == ["done", "finished", "3/3"]
    code, shown, _ = here("sweep", "get", done)
    assert code == 0
    rows = [line.split() for line in shown.splitlines()]
    assert rows[0] == ["TRIAL", "RATE", "PHASE", "ACCURACY", "TIME", "REASON"]
    assert rows[2][:5] == ["done-1", "0.4", "COMPLETED", "0.8", "*"]


def test_a_sweep_is_shown_as_the_file_that_would_submit_it_again(here: Here, done: str) -> None:
    found = json.loads(here("sweep", "get", done, "-o", "json")[1])
    assert found["spec"]["parameters"] == {"rate": ["0.1", "0.4", "0.2"]}
    assert (found["status"]["best"], found["status"]["trials"][1]["result"]) == (1, 0.8)
    assert json.loads(here("sweep", "list", "-o", "json")[1])[0]["kind"] == "Sweep"


def test_curves_are_drawn_in_the_terminal_and_into_a_picture(here: Here, done: str, tmp_path: Path) -> None:
    code, drawn, _ = here("sweep", "plot", done, "--against", "step")
    assert code == 0
    assert drawn.splitlines()[0] == "done: accuracy"
    assert "1 to 2" in drawn
    assert "done-1 rate=0.4  0.8" in drawn
    picture = tmp_path / "curves.png"
    assert here("sweep", "plot", done, "--png", str(picture))[:2] == (0, f"{picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "nothing was reported" in here("sweep", "plot", done, "--metric", "loss")[1]
    assert "worker-0  0.8" in here("metrics", "done-1", "--plot")[1]


def test_a_sweep_is_stopped_and_deleted(shell: Shell, tmp_path: Path) -> None:
    shell.out("sweep", "-f", write_sweep(tmp_path, "long", command='sh, -c, "exec sleep 1000"'))
    assert "long is stop" in shell.run("sweep", "stop", "long").stderr
    assert shell.run("sweep", "get", "long", "-w").returncode == 1
    assert shell.run("sweep", "delete", "long", "--timeout", "60s").stderr.endswith("long is deleted\n")
    assert shell.run("sweep", "get", "long").returncode == 3
    assert shell.run("get", "long-0").returncode == 3


def test_a_dry_run_prints_the_sweep_and_sends_nothing(here: Here, tmp_path: Path) -> None:
    code, printed, _ = here("sweep", "-f", write_sweep(tmp_path, "dry"), "--dry-run")
    assert code == 0
    assert "kind: Sweep" in printed
    assert here("sweep", "get", "dry")[0] == 3


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        ("objective: {metric: accuracy}", "{sampler: tpe, budget: {trials: 3}}", "tpe learns from results"),
        ("parallelism: 2", "{sampler: random, budget: {gpu_hours: 1}}", "its trials use no GPU"),
        ("$(rate)", "$(speed)", "the template refers to $(speed)"),
    ],
)
def test_a_dry_run_refuses_what_the_service_would(
    here: Here, tmp_path: Path, before: str, after: str, want: str
) -> None:
    file = Path(write_sweep(tmp_path, "dry"))
    fields = after[1:-1].replace(", budget", "\n  budget") if after.startswith("{") else after
    file.write_text(file.read_text().replace(before, fields))
    code, printed, told = here("sweep", "-f", str(file), "--dry-run")
    assert (code, printed) == (2, "")
    assert want in told


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(("sweep",), "name a file", id="nothing to do"),
        pytest.param(("sweep", "-f", "x.yaml", "list"), "does not go with 'list'", id="file and command"),
        pytest.param(("sweep", "-f", "no-such-file.yaml"), "cannot be read", id="no file"),
        pytest.param(("chaos", "job"), "--kill", id="a drill without victims"),
        pytest.param(("chaos", "job", "--kill", "worker=often"), "not a duration", id="a drill without rhythm"),
    ],
)
def test_wrong_use_is_told(here: Here, arguments: tuple[str, ...], want: str) -> None:
    code, _, told = here(*arguments)
    assert code == 2
    assert want in told


def test_chaos_kills_and_tells_whom(here: Here) -> None:
    here("submit", "--name", "victim", "--cpu", "100m", "--", "sleep", "1000")
    code, told, said = here("chaos", "victim", "--kill", "worker=100ms", "--seed", "1")
    assert code == 0
    assert "killed worker-0" in told
    assert said.endswith("killed 1 replica; victim is FAILED\n")


def test_an_experiment_whose_algorithm_has_a_substitute_here_says_so(shell: Shell) -> None:
    file = Path(__file__).parents[1] / "integration" / "katib" / "files" / "bayesian.yaml"
    submitted = shell.run("submit", "-f", str(file), "--wait")
    assert submitted.returncode == 0, submitted.stderr
    assert "note: its Gaussian process needs PyTorch and SciPy" in submitted.stderr
    assert "needs PyTorch" in shell.run("experiment", "get", "bayesian", "-o", "wide").stdout
    assert shell.run("experiment", "delete", "bayesian").returncode == 0
