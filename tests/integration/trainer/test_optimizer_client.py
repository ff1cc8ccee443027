"""The PyPI package kubeflow, unmodified, searches by its OptimizerClient: every trial is a TrainJob."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.kubeflow.conftest import LocalService
from tests.integration.trainer.test_trainer_client import play

SCENARIOS = Path(__file__).with_name("optimizer_scenarios.py")


@pytest.fixture(scope="module")
def saw(service: LocalService) -> dict[str, Any]:
    """Return what the client saw."""
    return play(service.kubeconfig, "any", "default", scenarios=SCENARIOS)


def test_a_search_tries_gangs_and_finds_the_best_by_the_train_jobs_of_its_trials(saw: dict[str, Any]) -> None:
    seen = saw["search"]
    assert seen["status"] == "Complete"
    assert {each["rate"] + " " + each["depth"] for each, _, _ in seen["trials"]} == {"0.1 1", "0.1 3", "0.5 1", "0.5 3"}
    assert all(float(score) == float(each["rate"]) * int(each["depth"]) for each, score, _ in seen["trials"])
    assert {status for _, _, status in seen["trials"]} == {"Complete"}
    assert seen["best"] == [{"rate": "0.5", "depth": "3"}, "1.5"]
    assert seen["nodes"] == 2
    assert seen["steps"] == [["node-0", "Succeeded"], ["node-1", "Succeeded"]]
    assert seen["logs"] == ["well 2", "score=1.5"]
    assert seen["listed"]
    assert seen["train_jobs"]
    assert seen["gone"]


def test_a_search_whose_trials_fail_fails_with_their_train_jobs(saw: dict[str, Any]) -> None:
    assert set(saw["failure"]) == {"Failed"}


def test_a_runtime_that_is_not_there_is_refused_with_those_that_are(saw: dict[str, Any]) -> None:
    assert "there is no TrainingRuntime 'nothing'" in saw["missing"]
    assert "trialSpec.spec.runtimeRef.name" in saw["missing"]
    assert "trying" in saw["missing"]
