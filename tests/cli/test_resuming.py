"""Going on from a chosen checkpoint."""

import json
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

PROGRAM = """
import os, pathlib, sys, time
from gangline.runtime import Checkpoints
checkpoints = Checkpoints(os.environ["CHECKPOINT_DIR"], keep=3)
found = checkpoints.latest()
print("from", found.step if found else "the beginning", flush=True)
start = found.step + 10 if found else 10
for step in range(start, start + 30, 10):
    checkpoints.save(step, lambda path: (path / "state").write_text(str(step)))
if os.environ["GANGLINE_ATTEMPT"] == "1":
    time.sleep(600)
sys.exit(0 if os.environ["GANGLINE_ATTEMPT"] == "3" else 1)
"""


@pytest.fixture
def halted(shell: Shell, tmp_path: Path) -> str:
    """A job that has saved three steps and was halted then."""
    (tmp_path / "train.py").write_text(PROGRAM)
    file = tmp_path / "job.yaml"
    file.write_text(
        f"""
metadata: {{name: resuming}}
spec:
  code: {tmp_path}
  command: [{Shell.command()[0]}, train.py]
  resources: {{cpu: 100m, memory: 128Mi}}
  policy: {{max_attempts: 9, backoff: 100ms, grace: 1s}}
"""
    )
    shell.out("submit", "-f", str(file))
    deadline = time.monotonic() + 60
    while len(steps(shell, "resuming")) < 3:
        assert time.monotonic() < deadline
    shell.out("halt", "resuming")
    shell.out("wait", "resuming", "--for", "HALTED", "--timeout", "60s")
    return "resuming"


def steps(shell: Shell, job: str) -> list[int]:
    return [each["step"] for each in json.loads(shell.out("checkpoints", job, "-o", "json"))]


def test_a_job_goes_on_from_a_chosen_step_and_then_from_what_it_has_saved_since(shell: Shell, halted: str) -> None:
    known = steps(shell, halted)
    refused = shell.run("resume", halted, "--from", "7")
    assert refused.returncode != 0
    assert "has no checkpoint of step 7" in refused.stderr
    assert "one of 10, 20, 30" in refused.stderr
    chosen = known[-1]
    shell.out("resume", halted, "--from", str(chosen))
    shell.run("wait", halted, "--timeout", "90s")
    lines = [shell.out("logs", halted, "--attempt", str(number)).strip() for number in (2, 3)]
    assert lines == [f"from {chosen}", f"from {chosen + 30}"]
    assert steps(shell, halted) == [chosen + 60, chosen + 50, chosen + 40]


def test_a_job_without_checkpoints_says_so(shell: Shell) -> None:
    shell.out("submit", "--name", "resuming-nothing", "--halted", "--", "true")
    refused = shell.run("resume", "resuming-nothing", "--from", "1")
    assert "it has saved no checkpoints" in refused.stderr


def test_a_job_whose_loss_is_nan_halts_with_the_reason_if_its_file_asks_for_it(shell: Shell, tmp_path: Path) -> None:
    program = "import time; from gangline.runtime import report; report(step=4, grad_norm=1e400); time.sleep(600)"
    file = tmp_path / "job.yaml"
    file.write_text(
        f"""
metadata: {{name: diverging}}
spec:
  command: [{Shell.command()[0]}, -c, "{program}"]
  resources: {{cpu: 100m, memory: 128Mi}}
  policy: {{grace: 1s, nan: {{action: halt, metric: grad_norm}}}}
"""
    )
    shell.out("submit", "-f", str(file))
    shell.out("wait", "diverging", "--for", "HALTED", "--timeout", "60s")
    assert "grad_norm of worker-0 is NaN or infinite at step 4" in shell.out("get", "diverging")
    shell.out("delete", "diverging")
