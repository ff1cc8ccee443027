"""Experiment files of our own, one for each feature, on the local service: every one comes to the end it should."""

from pathlib import Path

import pytest

from gangline.cli.input.experiment_files import experiments_in
from gangline.kinds.experiment import EXPERIMENT
from gangline.model.kinds.experiment import ExperimentView, TrialState
from tests.integration.kubeflow.conftest import LocalService

FILES = sorted(Path(__file__).with_name("files").glob("*.yaml"))
SUCCEEDED = TrialState.SUCCEEDED
FAILED = ("not-a-number", "failing", "lost-template", "conditions")


@pytest.fixture(scope="module")
def ended(service: LocalService) -> dict[str, ExperimentView]:
    """All of them, submitted together and waited for; trials find this very Python."""
    records = service.client.records(EXPERIMENT)
    for path in FILES:
        found = experiments_in(str(path))
        assert found is not None
        for _, document in found.objects:
            service.client.put_object(document)
        for spec in found.specs:
            records.create(spec)
    return {path.stem: records.wait(path.stem, timeout=240) for path in FILES}


def values_of(view: ExperimentView) -> list[float]:
    return [each.value for each in view.trials if each.value is not None]


@pytest.mark.parametrize("name", [path.stem for path in FILES if path.stem not in FAILED])
def test_it_succeeds_with_the_best_of_its_trials(ended: dict[str, ExperimentView], name: str) -> None:
    view = ended[name]
    assert view.state == "Succeeded", (view.end, [(each.state, each.message) for each in view.trials])
    best = next(each for each in view.trials if each.name == view.best)
    assert best.value == (max if name in ("medianstop", "pbt") else min)(values_of(view))
    assert all(each.state in (SUCCEEDED, TrialState.EARLY_STOPPED) for each in view.trials)


@pytest.mark.parametrize(
    ("name", "trials"),
    [("random", 1), ("grid", 6), ("tpe", 3), ("hyperband", 6), ("medianstop", 4), ("config-map", 2), ("tfjob", 2)],
)
def test_it_has_as_many_trials_as_it_should(ended: dict[str, ExperimentView], name: str, trials: int) -> None:
    assert len(ended[name].trials) == trials


def test_the_goal_ends_a_search(ended: dict[str, ExperimentView]) -> None:
    end = ended["random"].end
    assert end is not None
    assert end.reason == "TargetReached"


def test_the_best_of_a_rung_go_on_with_more(ended: dict[str, ExperimentView]) -> None:
    trials = ended["hyperband"].trials
    assert [each.values["epochs"] for each in trials] == ["1", "1", "1", "3", "3", "3"]
    assert trials[3].values["rate"] == min((each.values["rate"] for each in trials[:3]), key=float)


def test_what_is_worse_than_the_median_is_stopped(ended: dict[str, ExperimentView]) -> None:
    assert [each.state for each in ended["medianstop"].trials] == [SUCCEEDED] * 3 + [TrialState.EARLY_STOPPED]


def test_a_generation_goes_on_from_the_checkpoints_of_the_one_before(ended: dict[str, ExperimentView]) -> None:
    assert values_of(ended["pbt"]) == [1.0] * 3 + [2.0] * 3


def test_distributions_keep_to_their_spaces(ended: dict[str, ExperimentView]) -> None:
    for trial in ended["distributions"].trials:
        assert float(trial.values["rate"]) in (0.01, 0.02, 0.03, 0.04, 0.05)
        assert 32 <= int(trial.values["units"]) <= 64
        assert 1 <= int(trial.values["epochs"]) <= 30


def test_the_strategy_says_which_value_counts(ended: dict[str, ExperimentView]) -> None:
    for trial in ended["strategies"].trials:
        loss, accuracy = trial.metrics
        assert (loss.least, trial.value) == (0.01, float(trial.values["rate"]))
        assert (accuracy.most, accuracy.latest) == (0.5, 0.4)


def test_only_the_primary_replica_counts(ended: dict[str, ExperimentView]) -> None:
    assert all(value > 0 for value in values_of(ended["pytorchjob"]))


@pytest.mark.parametrize(
    ("name", "state", "said"),
    [
        (
            "not-a-number",
            TrialState.METRICS_UNAVAILABLE,
            "ended without a finite number for 'loss' (budget.failures is 2)",
        ),
        ("failing", TrialState.FAILED, "failed (budget.failures is 2)"),
    ],
)
def test_what_cannot_succeed_fails_with_the_reason(
    ended: dict[str, ExperimentView], name: str, state: TrialState, said: str
) -> None:
    view = ended[name]
    assert view.state == "Failed"
    assert view.end is not None
    assert said in view.end.message
    assert [each.state for each in view.trials].count(state) >= 2


def test_a_template_that_is_not_there_fails_it(ended: dict[str, ExperimentView]) -> None:
    view = ended["lost-template"]
    assert view.state == "Failed"
    assert view.end is not None
    assert "the ConfigMap default/nowhere" in view.end.message


def test_a_condition_ends_a_trial_before_its_job_ends(ended: dict[str, ExperimentView]) -> None:
    (trial,) = ended["conditions"].trials
    assert trial.state is TrialState.METRICS_UNAVAILABLE, "it ran, and nothing was collected"
