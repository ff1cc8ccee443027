"""Grids, parallelism, what a trial's job looks like, and which trial is best."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from gangline.errors import InvalidInputError
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, Metric, Phase, PhaseEntry, ReplicaId, RoleName, Timestamp
from gangline.model.kinds.sweep import Assignment, Goal, Objective, Sweep, SweepSpec
from gangline.model.search.parameter import Parameter
from gangline.sweeps import (
    SAMPLERS,
    GridSampler,
    Outcome,
    Plan,
    Search,
    Trial,
    Tried,
    best_trial,
    check_references,
    trial_to_job,
    trials_of,
)
from gangline.sweeps.plan import plan as decide
from gangline.testing.builders import GRID, START, make_job, make_role, make_running_job, make_spec, make_sweep


def plan(sweep: Sweep, trials: Sequence[Trial], now: float = START) -> Plan:
    return decide(sweep, trials, Timestamp(now))


TEMPLATE = make_spec(
    roles=(
        make_role("chief", command=("python", "train.py", "--layers=$(layers)", "$(rate)")),
        make_role("worker", command=("python", "work.py"), env={"RATE": "$(rate)"}),
    )
)
CHIEF = ReplicaId(RoleName("chief"), 0)


def jobs_of(sweep: Sweep, *, begun: int, finished: int = 0) -> list[Job]:
    """The jobs of the first trials of a sweep, the first few of which have ended."""
    jobs = []
    for assignment in plan(make_sweep(template=sweep.spec.template), []).start[:begun]:
        job = new_job(sweep.job_id(assignment.number), trial_to_job(sweep.spec, assignment), START)
        if assignment.number < finished:
            ended = PhaseEntry(phase=Phase.COMPLETED, at=START, reason="Test")
            job = replace(job, history=(*job.history, ended))
        jobs.append(job)
    return jobs


def trials(sweep: Sweep, **numbers: int) -> tuple[Trial, ...]:
    return trials_of(sweep, jobs_of(sweep, **numbers))


def reported(sweep: Sweep, number: int, value: float, *, at: float = 1.0, name: str = "accuracy") -> Metric:
    job_id = sweep.job_id(number)
    return Metric(job_id=job_id, replica=CHIEF, name=name, value=value, step=None, at=Timestamp(at))


def test_a_grid_tries_every_combination_in_the_order_written() -> None:
    begun = plan(make_sweep(), []).start
    assert [tuple(a.values.values()) for a in begun] == [
        ("1", "0.1"), ("1", "0.01"), ("2", "0.1"), ("2", "0.01"), ("3", "0.1"), ("3", "0.01"),
    ]  # fmt: skip


def test_every_role_of_a_trial_gets_its_values() -> None:
    sweep = make_sweep(template=TEMPLATE)
    job = trial_to_job(sweep.spec, plan(sweep, []).start[3])
    assert job.name == "grid-3"
    assert job.roles[0].command == ("python", "train.py", "--layers=2", "0.01")
    assert job.roles[1].env == {"RATE": "0.01"}
    assert job.env["TRIAL_RATE"] == "0.01"
    assert job.labels == {"gangline.dev/sweep": "grid", "gangline.dev/trial": "3"}


def test_trials_are_read_back_in_their_order_with_their_values() -> None:
    sweep = make_sweep()
    found = trials_of(sweep, reversed(jobs_of(sweep, begun=3)))
    assert [trial.assignment for trial in found] == list(plan(sweep, []).start[:3])
    assert [trial.job.id for trial in found] == ["sweep-1-0", "sweep-1-1", "sweep-1-2"]


def test_a_job_that_only_bears_the_labels_is_no_trial() -> None:
    sweep = make_sweep()
    labels = {"gangline.dev/sweep": "grid", "gangline.dev/trial": "0"}
    assert trials_of(sweep, [make_job(job_id="mine", labels=labels), make_job(job_id="sweep-1-0")]) == ()


def test_no_more_trials_run_at_once_than_the_sweep_allows() -> None:
    sweep = make_sweep(parallelism=2)
    assert [a.number for a in plan(sweep, []).start] == [0, 1]
    assert plan(sweep, trials(sweep, begun=2)).start == ()
    assert [a.number for a in plan(sweep, trials(sweep, begun=2, finished=1)).start] == [2]


@pytest.mark.parametrize(("parallelism", "want"), [(None, 100), (7, 7), (1000, 100)])
def test_no_more_trials_wait_in_the_queue_than_fill_what_becomes_free(parallelism: int | None, want: int) -> None:
    values = tuple(str(number) for number in range(2500))
    sweep = make_sweep(parameters=(Parameter("rate", values),), parallelism=parallelism)
    assert len(plan(sweep, ()).start) == want
    waiting = [
        make_job(trial_to_job(sweep.spec, assignment), job_id=sweep.job_id(assignment.number))
        for assignment in plan(sweep, ()).start
    ]
    assert plan(replace(sweep, status=replace(sweep.status, begun=want)), trials_of(sweep, waiting)) == Plan(begun=want)
    running = [replace(make_running_job(job.spec), id=job.id) for job in waiting[:30]]
    more = plan(replace(sweep, status=replace(sweep.status, begun=want)), trials_of(sweep, [*running, *waiting[30:]]))
    assert len(more.start) == (30 if parallelism != 7 else 0)


def test_a_sweep_is_over_when_everything_was_tried_and_has_ended() -> None:
    sweep = make_sweep()
    assert not plan(sweep, trials(sweep, begun=6, finished=5)).over
    assert plan(sweep, trials(sweep, begun=6, finished=6)).over


def test_a_trial_whose_job_was_deleted_is_not_tried_again() -> None:
    sweep = make_sweep(begun=4)
    assert [a.number for a in plan(sweep, trials(sweep, begun=2, finished=2)).start] == [4, 5]


def test_stopping_cancels_what_runs_and_starts_nothing() -> None:
    sweep = make_sweep(stopped=True)
    wanted = plan(sweep, trials(make_sweep(), begun=2, finished=1))
    assert (wanted.cancel, wanted.start, wanted.over) == ((JobId("sweep-1-1"),), (), False)
    assert plan(sweep, trials(make_sweep(), begun=1, finished=1)).over


def test_a_result_is_the_newest_finite_value_of_the_objective() -> None:
    sweep = make_sweep()
    metrics = [
        reported(sweep, 0, 0.9, at=2),
        reported(sweep, 0, 0.5, at=1),
        reported(sweep, 1, float("nan")),
        reported(sweep, 2, 7.0, name="loss"),
    ]
    assert [t.result for t in trials_of(sweep, jobs_of(sweep, begun=3), metrics)] == [0.9, None, None]


@pytest.mark.parametrize(
    ("objective", "want"),
    [
        pytest.param(Objective("accuracy"), 1, id="the largest"),
        pytest.param(Objective("accuracy", Goal.MINIMIZE), 0, id="the smallest"),
        pytest.param(None, None, id="without an objective, none"),
    ],
)
def test_the_best_trial_is_the_one_the_goal_prefers(objective: Objective | None, want: int | None) -> None:
    sweep = make_sweep(objective=objective)
    metrics = [reported(sweep, 0, 0.1), reported(sweep, 1, 0.9)]
    best = best_trial(objective, trials_of(make_sweep(), jobs_of(sweep, begun=3), metrics))
    assert (best.assignment.number if best else None) == want


def test_of_equal_trials_the_first_is_the_best() -> None:
    sweep = make_sweep()
    metrics = [reported(sweep, number, 0.9) for number in (2, 1)]
    best = best_trial(sweep.spec.objective, trials_of(sweep, jobs_of(sweep, begun=3), metrics))
    assert best is not None
    assert best.assignment.number == 1


def test_a_sampler_learns_the_results_of_trials_that_have_ended_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    class Learning:
        def check(self, spec: SweepSpec) -> None: ...

        def propose(self, search: Search, most: int) -> Sequence[Mapping[str, str]]:
            asked.update(search=search, most=most)
            return []

    sweep = make_sweep(parallelism=4)
    metrics = [reported(sweep, 0, 0.5), reported(sweep, 2, 0.7)]
    begun = trials_of(sweep, jobs_of(sweep, begun=3, finished=2), metrics)
    monkeypatch.setitem(SAMPLERS, sweep.spec.sampler, Learning())
    plan(sweep, begun)
    search = asked["search"]
    assert isinstance(search, Search)
    assert [(each.number, each.outcome, each.results) for each in search.tried] == [
        (0, Outcome.COMPLETED, (0.5,)),
        (1, Outcome.FAILED, ()),
        (2, Outcome.RUNNING, ()),
    ]
    assert asked["most"] == 3


def test_a_parameter_that_a_trial_does_not_have_is_empty_text_and_no_variable() -> None:
    spec = make_sweep(template=TEMPLATE).spec
    job = trial_to_job(spec, Assignment(number=0, values={"layers": "1"}))
    assert job.roles[0].command == ("python", "train.py", "--layers=1", "")
    assert "TRIAL_RATE" not in job.env


def test_a_template_that_refers_to_an_unknown_parameter_is_refused() -> None:
    spec = SweepSpec(name="grid", template=TEMPLATE, parameters=GRID[:1])
    with pytest.raises(InvalidInputError, match=r"\$\(rate\)"):
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


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, "running", id="just submitted"),
        pytest.param({"stopped": True}, "stopping", id="trials still run"),
        pytest.param({"stopped": True, "finished_at": START}, "stopped", id="nothing runs any more"),
        pytest.param({"finished_at": START}, "finished", id="everything tried"),
        pytest.param({"finished_at": START, "deleting": True}, "deleting", id="being deleted"),
    ],
)
def test_a_sweep_says_where_it_is(fields: dict[str, object], want: str) -> None:
    assert make_sweep(**fields).state == want


@pytest.mark.parametrize(
    ("label", "variables"),
    [
        pytest.param("²", {}, id="a digit that is not a number"),
        pytest.param("00", {}, id="another way to write it"),
        pytest.param("9" * 5000, {}, id="more digits than fit"),
        pytest.param("0", {}, id="no values"),
        pytest.param("0", {"TRIAL_PARAMETERS": "{"}, id="broken values"),
        pytest.param("0", {"TRIAL_PARAMETERS": "3"}, id="values of another kind"),
    ],
)
def test_a_job_that_only_looks_like_a_trial_is_none(label: str, variables: dict[str, str]) -> None:
    sweep = make_sweep()
    labels = {"gangline.dev/sweep": sweep.name, "gangline.dev/trial": label}
    forged = new_job(sweep.job_id(0), make_spec(labels=labels, env=variables), START)
    assert trials_of(sweep, [forged]) == ()


@pytest.mark.parametrize("names", [("a-b", "a_b"), ("rate", "Rate"), ("rate", "rate"), ("parameters",)])
def test_parameters_that_would_share_a_variable_are_refused(names: tuple[str, ...]) -> None:
    parameters = tuple(Parameter(name, ("1",)) for name in names)
    with pytest.raises(InvalidInputError, match=r"TRIAL_\w+ stands for .* already"):
        SweepSpec(name="grid", template=TEMPLATE, parameters=parameters)


def test_a_grid_that_nobody_could_ever_try_is_refused() -> None:
    digits = tuple(str(digit) for digit in range(10))
    many = tuple(Parameter(name, digits) for name in "abcdef")
    with pytest.raises(InvalidInputError, match=r"1,000,000 combinations.*at most 100,000"):
        SweepSpec(name="grid", template=TEMPLATE, parameters=many)


def test_no_more_trials_are_listed_than_can_begin() -> None:
    sweep = make_sweep()
    begun = tuple(Tried(number=number, values={}, outcome=Outcome.FAILED) for number in range(3))
    found = GridSampler().propose(Search(id=sweep.id, spec=sweep.spec, seed=0, tried=begun), 2)
    assert [tuple(values.values()) for values in found] == [("2", "0.01"), ("3", "0.1")]
