"""The Katib SDK as its users install it, in an environment of its own, and what they do with it."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.environments import environment_with

SDK = ("kubeflow-katib==0.19.0", "kubernetes<35")
"""The newest clients of Kubernetes refuse the objects that this SDK hands them."""
SCENARIOS = Path(__file__).with_name("sdk_scenarios.py")


def katib_environment() -> Path:
    """Return the interpreter of an environment that has the SDK (60 MB, made once in a few seconds, then cached)."""
    return environment_with(*SDK)


def play(*arguments: str) -> dict[str, Any]:
    """Run every scenario side by side, and return what each saw; fails with what went wrong in any."""
    done = subprocess.run(
        [str(katib_environment()), "-W", "ignore", str(SCENARIOS), *arguments],
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    failed = {name: each["failed"] for name, each in found.items() if "failed" in each}
    assert not failed, "\n".join(f"{name}:\n{text}" for name, text in failed.items())
    return {name: each["saw"] for name, each in found.items()}


def check_function(seen: dict[str, Any]) -> None:
    """What a search by a function must look like, wherever it ran."""
    assert seen["conditions"]["Succeeded"] == ["True", "ExperimentMaxTrialsReached"]
    assert seen["conditions"]["Running"][0] == "False"
    assert seen["counts"] == [4, 4, 4]
    scores = {name: float(each["rate"]) * int(each["layers"]) for name, each in seen["values"].items()}
    assert len(scores) == 4
    assert scores[seen["best_name"]] == max(scores.values())
    assert seen["best"] == seen["values"][seen["best_name"]]
    least, most, latest = seen["metrics"]["score"]
    assert float(most) == float(latest) > float(least)
    assert seen["metrics"]["other"] == ["1.0", "1.0", "1.0"]
    assert seen["trial"] == ["function", "Succeeded"]
    assert (seen["suggestions"], seen["all_trials"], seen["listed"]) == (4, 4, True)
    assert "already exists" in seen["taken"]


def check_bad_input(saw: dict[str, Any]) -> None:
    """What fails must come to its end, and say why."""
    assert "RuntimeError" in saw["nothing_reported"]["said"]
    assert saw["nothing_reported"]["unavailable"] == 2
    assert "2 ended without a finite number for 'score'" in saw["nothing_reported"]["condition"]
    assert "RuntimeError" in saw["always_failing"]["said"]
    assert saw["always_failing"]["failed"] >= 1
    assert saw["always_failing"]["reason"] == "ExperimentFailed"
