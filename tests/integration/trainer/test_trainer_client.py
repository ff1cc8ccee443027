"""The PyPI package kubeflow, unmodified, trains functions on one machine by its TrainerClient."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environments import environment_with
from tests.integration.kubeflow.conftest import LocalService

KUBEFLOW = ("kubeflow==0.5.0",)
SCENARIOS = Path(__file__).with_name("client_scenarios.py")


@pytest.fixture(scope="module")
def saw(service: LocalService, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the client saw."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "numbers.txt").write_text("1 2 3\n")
    (folder / "bin").mkdir()
    stand_in = folder / "bin" / "torchrun"
    stand_in.write_text('#!/bin/sh\nexec python "$@"\n')
    stand_in.chmod(0o755)
    return play(service.kubeconfig, f"file://{folder}", str(folder / "bin"), "any", "default")


def play(kubeconfig: Path, *arguments: str, scenarios: Path = SCENARIOS) -> dict[str, Any]:
    """Run the scenarios with the unmodified client; return what it saw."""
    done = subprocess.run(
        [environment_with(*KUBEFLOW), "-W", "ignore", scenarios, *arguments],
        env={
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def test_a_function_trains_as_a_gang_from_its_start_to_its_deletion(saw: dict[str, Any]) -> None:
    seen = saw["function"]
    assert {"plain", "torch-distributed", "deepspeed-distributed", "jax-distributed"} <= {*seen["runtimes"]}
    assert seen["status"] == "Complete"
    assert seen["steps"] == [["node-0", "Succeeded"], ["node-1", "Succeeded"]]
    assert seen["logs"] == [["trained well 0 2 runtime"], ["trained well 1 2 runtime"]]
    assert seen["listed"]
    assert seen["gone"]


def test_events_speak_of_the_train_job_and_of_its_pods(saw: dict[str, Any]) -> None:
    kinds = {kind for kind, _ in saw["function"]["events"]}
    assert kinds == {"TrainJob", "Pod"}
    assert ["TrainJob", "Submitted"] in saw["function"]["events"]


def test_the_status_has_the_end_and_the_progress_that_the_code_reported(saw: dict[str, Any]) -> None:
    status = saw["function"]["object"]["status"]
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("Complete", "True")
    assert status["jobsStatus"] == [
        {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
    ]
    assert status["trainerStatus"]["progressPercentage"] == 50
    assert status["trainerStatus"]["metrics"] == [{"name": "loss", "value": "0.25"}]


def test_each_framework_finds_its_peers_by_its_own_variables(saw: dict[str, Any]) -> None:
    told = {name: ast.literal_eval(lines[-1]) for name, lines in saw["variables"].items()}
    torch, jax, xgboost = (told[f"{name}-like"] for name in ("torch", "jax", "xgboost"))
    assert (torch["PET_NNODES"], torch["PET_NODE_RANK"], torch["PET_NPROC_PER_NODE"]) == ("2", "1", "3")
    assert (jax["JAX_NUM_PROCESSES"], jax["JAX_PROCESS_ID"]) == ("2", "1")
    assert (xgboost["DMLC_NUM_WORKER"], xgboost["DMLC_TASK_ID"]) == ("2", "1")


def test_a_failure_and_a_deadline_are_told_by_their_conditions(saw: dict[str, Any]) -> None:
    (failed,), (late,) = saw["failures"], saw["deadline"]
    assert failed["type"] == "Failed"
    assert "no such luck" in failed["message"] or "exit" in failed["message"]
    assert (late["type"], late["reason"]) == ("Failed", "DeadlineExceeded")


def test_an_initializer_fetches_data_to_where_its_users_look_for_it(saw: dict[str, Any]) -> None:
    assert saw["data"][0] == "1 2 3"


def test_a_suspended_train_job_rests_until_it_is_resumed(saw: dict[str, Any]) -> None:
    (condition,) = saw["suspension"]["conditions"]
    assert condition["type"] == "Suspended"
    assert saw["suspension"]["jobsStatus"][0]["suspended"] == 1


def test_what_cannot_be_run_is_refused_with_its_field(saw: dict[str, Any]) -> None:
    refused = saw["refusals"]
    assert "spec.runtimeRef.name" in refused["runtime"]
    assert "torch-distributed" in refused["runtime"]
    assert "Hugging Face" in refused["hugging face"]
    assert "trainers" in refused["field"]
