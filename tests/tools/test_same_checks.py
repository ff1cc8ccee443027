"""Hooks and hosted CI run what `make check` and `.ci/run` run, and nothing of their own."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_the_hooks_are_the_checks_of_make_check() -> None:
    rule = (ROOT / "Makefile").read_text().split("\ncheck: setup")[1].split("\n\n")[0]
    wanted = [line.strip().replace("$(BIN)", ".venv/bin") for line in rule.splitlines()[1:]]
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    assert [hook["entry"] for hook in repository["hooks"]] == wanted


def test_hosted_ci_runs_the_script_that_runs_here() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert [command for command in commands if "make" in command or "pytest" in command] == []
    assert len([command for command in commands if command.endswith("CI=true bash .ci/run")]) == 1
