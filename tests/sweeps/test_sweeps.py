"""Grids, parallelism, and what a trial's job looks like."""

import pytest

from gangline.errors import InvalidInputError
from gangline.lifecycle import new_job
from gangline.model import JobId
from gangline.model.sweep import Assignment, Parameter, Sweep, SweepSpec
from gangline.sweeps import plan, trial_of, trial_to_job
from gangline.sweeps.rendering import check_references
from gangline.testing.builders import START, make_role, make_spec

LAYERS = Parameter("layers", ("1", "2", "3"))
RATE = Parameter("learning-rate", ("0.1", "0.01"))
TEMPLATE = make_spec(
    roles=(
        make_role("chief", command=("python", "train.py", "--layers=$(layers)", "$(learning-rate)")),
        make_role("worker", command=("python", "work.py"), env={"RATE": "$(learning-rate)"}),
    )
)


def make_sweep(**fields: object) -> Sweep:
    spec = SweepSpec(name="grid", template=TEMPLATE, parameters=(LAYERS, RATE), **fields)  # type: ignore[arg-type]
    return Sweep(spec=spec, created_at=START)


def run(sweep: Sweep, assignment: Assignment, *, finished: bool = False):  # type: ignore[no-untyped-def]  # a test's shorthand
    job = new_job(JobId(f"job-{assignment.number}"), trial_to_job(sweep.spec, assignment), START)
    trial = trial_of(job)
    assert trial.assignment == assignment
    return type(trial)(job_id=trial.job_id, assignment=assignment, phase=trial.phase, finished=finished)


def test_a_grid_tries_every_combination_in_the_order_written() -> None:
    begun = plan(make_sweep(), []).start
    assert [tuple(a.values.values()) for a in begun] == [
        ("1", "0.1"), ("1", "0.01"), ("2", "0.1"), ("2", "0.01"), ("3", "0.1"), ("3", "0.01"),
    ]  # fmt: skip


def test_every_role_of_a_trial_gets_its_values() -> None:
    sweep = make_sweep()
    job = trial_to_job(sweep.spec, plan(sweep, []).start[3])
    assert job.name == "grid-3"
    assert job.roles[0].command == ("python", "train.py", "--layers=2", "0.01")
    assert job.roles[1].env == {"RATE": "0.01"}
    assert job.env["TRIAL_LEARNING_RATE"] == "0.01"
    assert job.labels == {"gangline.dev/sweep": "grid", "gangline.dev/trial": "3"}


def test_no_more_trials_run_at_once_than_the_sweep_allows() -> None:
    sweep = make_sweep(parallelism=2)
    first, second = plan(sweep, []).start
    running = [run(sweep, first), run(sweep, second)]
    assert plan(sweep, running).start == ()
    half = [run(sweep, first, finished=True), run(sweep, second)]
    assert [a.number for a in plan(sweep, half).start] == [2]


def test_a_sweep_is_over_when_everything_was_tried_and_has_ended() -> None:
    sweep = make_sweep()
    everything = plan(sweep, []).start
    last_runs = [run(sweep, a, finished=a.number != 5) for a in everything]
    assert not plan(sweep, last_runs).over
    assert plan(sweep, [run(sweep, a, finished=True) for a in everything]).over


def test_stopping_cancels_what_runs_and_starts_nothing() -> None:
    sweep = make_sweep()
    trials = [run(sweep, plan(sweep, []).start[0])]
    stopped = Sweep(spec=sweep.spec, created_at=START, stopped=True)
    assert plan(stopped, trials).cancel == ("job-0",)
    assert plan(stopped, trials).start == ()


def test_a_template_that_refers_to_an_unknown_parameter_is_refused() -> None:
    spec = SweepSpec(name="grid", template=TEMPLATE, parameters=(LAYERS,))
    with pytest.raises(InvalidInputError, match=r"\$\(learning-rate\)"):
        check_references(spec)


@pytest.mark.parametrize(
    ("name", "values", "want"),
    [
        pytest.param("a b", ("1",), "not a parameter name", id="bad name"),
        pytest.param("a", (), "no values", id="no values"),
        pytest.param("a", ("1", "1"), "twice", id="twice"),
    ],
)
def test_bad_parameters_are_refused(name: str, values: tuple[str, ...], want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        Parameter(name, values)
