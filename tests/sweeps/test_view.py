"""What a user is told of a sweep, and what one sweep takes over from another."""

from dataclasses import replace

import pytest

from gangline.lifecycle import new_job
from gangline.model import JobId, Phase, PhaseEntry
from gangline.model.kinds.sweep import (
    Assignment,
    Budget,
    Goal,
    KnownTrial,
    Objective,
    SweepState,
    SweepStatus,
    TrialStatus,
)
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.stopping import Rule, Stopping
from gangline.sweeps import trial_to_job, trials_of
from gangline.sweeps.view import best_text, known_trials, result_text, view
from gangline.testing.builders import START, make_sweep

SPEC = replace(
    make_sweep().spec,
    parameters=(Parameter("x", range=Range(low=0.0, high=1.0)),),
    objective=Objective("loss", Goal.MINIMIZE),
    sampler="random",
    budget=Budget(trials=9),
)


def make_trial(number: int, x: str, loss: float | None, phase: Phase = Phase.COMPLETED) -> TrialStatus:
    return TrialStatus(
        number=number,
        values={"x": x},
        job=f"trial-{number}",
        job_id=JobId(f"j{number}"),
        phase=phase,
        reason="Test",
        created_at=START,
        result=loss,
        results={} if loss is None else {"loss": loss},
    )


def make_status(*trials: TrialStatus, best: int | None = None) -> SweepStatus:
    return SweepStatus(
        id=make_sweep().id, spec=SPEC, state=SweepState.RUNNING, created_at=START, trials=trials, best=best
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(make_trial(1, "2.0", 0.1), id="values outside this space"),
        pytest.param(make_trial(1, "0.3", None), id="nothing reported"),
        pytest.param(make_trial(1, "0.3", 0.1, Phase.FAILED), id="a failure"),
    ],
)
def test_a_sweep_learns_from_another_only_what_fits(other: TrialStatus) -> None:
    found = known_trials(SPEC, make_status(make_trial(0, "0.5", 0.2), other))
    assert found == (KnownTrial(values={"x": "0.5"}, results={"loss": 0.2}),)


def test_a_trial_without_a_result_has_a_dash() -> None:
    assert result_text(make_trial(0, "0.5", None)) == "-"
    assert result_text(make_trial(0, "0.5", 0.123456789)) == "0.123457"


def test_the_best_trial_is_told_with_its_values() -> None:
    trials = (make_trial(0, "0.5", 0.2), make_trial(1, "0.25", 0.1))
    assert best_text(make_status(*trials, best=1)) == "loss 0.1 with x=0.25"
    assert best_text(make_status(*trials)) is None


@pytest.mark.parametrize(
    ("pruned", "said"), [((0,), ("StoppedEarly", "by the rule patience")), ((), ("CancelRequested", None))]
)
def test_a_trial_that_a_rule_stopped_was_not_cancelled_by_its_user(pruned: tuple[int, ...], said: object) -> None:
    sweep = make_sweep()
    sweep = replace(
        sweep,
        spec=replace(SPEC, stopping=Stopping(rule=Rule.PATIENCE, patience=2)),
        status=replace(sweep.status, begun=1, pruned=pruned),
    )
    job = new_job(sweep.job_id(0), trial_to_job(sweep.spec, Assignment(number=0, values={"x": "0.5"})), START)
    entry = PhaseEntry(phase=Phase.CANCELLED, at=START, reason="CancelRequested")
    (trial,) = view(sweep, trials_of(sweep, [replace(job, history=(*job.history, entry), finished_at=START)])).trials
    assert (trial.reason, trial.message or None) == said
