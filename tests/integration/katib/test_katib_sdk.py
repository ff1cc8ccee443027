"""The PyPI package kubeflow-katib, unmodified, drives the local service; inside its trials it pushes metrics."""

from typing import Any

import pytest

from tests.integration.katib.katib_sdk import check_bad_input, check_function, play
from tests.integration.kubeflow.conftest import LocalService


@pytest.fixture(scope="module")
def saw(service: LocalService) -> dict[str, Any]:
    """What every scenario saw; they run side by side in one process of the SDK's."""
    return play(str(service.kubeconfig))


def test_a_function_is_tuned_from_its_submission_to_its_deletion(saw: dict[str, Any]) -> None:
    check_function(saw["function"])


def test_an_experiment_goes_on_when_it_is_given_more_trials(saw: dict[str, Any]) -> None:
    assert saw["budget"] == {"before": 2, "after": 4, "most": 4}


def test_one_that_never_resumes_is_refused_more_trials(saw: dict[str, Any]) -> None:
    assert "completed" in saw["no_more"]["refused"]
    assert saw["no_more"]["trials"] == 2


def test_a_trial_may_be_a_gang(saw: dict[str, Any]) -> None:
    assert saw["gang"] == {"kind": "PyTorchJob", "succeeded": 1}


def test_the_logs_of_a_trial_are_read_while_it_runs(saw: dict[str, Any]) -> None:
    assert "score=1" in saw["logs"]


def test_trials_push_their_metrics(saw: dict[str, Any]) -> None:
    assert saw["pushing"] == {"succeeded": 2, "range": pytest.approx(2.0, abs=0.9)}


def test_what_cannot_succeed_ends_with_its_reason(saw: dict[str, Any]) -> None:
    check_bad_input(saw)
