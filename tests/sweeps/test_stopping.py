"""Stopping rules: what is stopped, what rests at a rung, what goes on, and that a lost request is made again."""

import sys
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.errors import InvalidInputError
from gangline.lifecycle import new_job
from gangline.model import Metric, Phase, PhaseEntry, ReplicaId, RoleName, Timestamp
from gangline.model.kinds.sweep import Assignment, Budget, EndReason, Goal, Objective, Sweep
from gangline.model.search.stopping import Mark, Rule, Stopping, Unit
from gangline.sweeps import Plan, curves_of, gather, plan, sift, trial_to_job, trials_of
from gangline.sweeps.samplers import Outcome, Tried
from gangline.sweeps.stopping import Curve, Judgement, judge
from gangline.sweeps.trials import Trial
from gangline.testing.builders import START, make_sweep

CHIEF = ReplicaId(RoleName("chief"), 0)
MEDIAN = Stopping(rule=Rule.MEDIAN, first=2, factor=2, min_trials=2)
ASHA = Stopping(rule=Rule.ASHA, first=1, factor=3, last=9)


def search_with(rule: Stopping, *, goal: Goal = Goal.MAXIMIZE, **fields: object) -> Sweep:
    spec = replace(
        make_sweep().spec,
        sampler="random",
        objective=Objective("accuracy", goal),
        budget=Budget(trials=9),
        stopping=rule,
        **{name: fields.pop(name) for name in ("parallelism",) if name in fields},
    )
    return replace(make_sweep(**fields), spec=spec)


def trials_in(sweep: Sweep, *phases: Phase) -> tuple[Trial, ...]:
    jobs = []
    for number, phase in enumerate(phases):
        values = {"layers": "1", "rate": "0.1"}
        job = new_job(sweep.job_id(number), trial_to_job(sweep.spec, Assignment(number=number, values=values)), START)
        jobs.append(replace(job, history=(*job.history, PhaseEntry(phase=phase, at=START, reason="Test"))))
    return trials_of(sweep, jobs)


RUNNING = Phase.PROCESSING


def judged(sweep: Sweep, curves: Mapping[int, Curve], *phases: Phase, room: int = 9) -> Judgement:
    return judge(sweep, trials_in(sweep, *(phases or [RUNNING] * len(curves))), curves, room)


def numbers(job_ids: tuple[str, ...]) -> list[int]:
    return [int(each.rpartition("-")[2]) for each in job_ids]


def curve(*values: float) -> Curve:
    return list(enumerate(values, 1))


@pytest.mark.parametrize(
    ("curves", "want"),
    [
        pytest.param([curve(0, 1), curve(0, 2), curve(0, 3)], [0], id="the worst of three"),
        pytest.param([curve(0, 1), curve(0, 2)], [], id="too few to compare with"),
        pytest.param([curve(9), curve(0, 2), curve(0, 3)], [], id="not yet at the rung"),
        pytest.param([curve(0, 2), curve(0, 2), curve(0, 2)], [], id="equal ones go on"),
        pytest.param(
            [curve(0, 5, 0), curve(0, 2, 9), curve(0, 4, 9)], [1], id="the value at the rung counts, not later"
        ),
    ],
)
def test_the_median_stops_what_is_worse_than_the_others(curves: list[Curve], want: list[int]) -> None:
    assert numbers(judged(search_with(MEDIAN), dict(enumerate(curves))).cancel) == want


@pytest.mark.parametrize(("percentile", "want"), [(25.0, [0, 1, 2]), (50.0, [0, 1]), (90.0, [0])])
def test_a_percentile_lets_so_many_go_on(percentile: float, want: list[int]) -> None:
    rule = Stopping(rule=Rule.PERCENTILE, first=1, percentile=percentile, min_trials=3)
    assert numbers(judged(search_with(rule), {n: curve(n) for n in range(5)}).cancel) == want


def test_a_stopped_trial_is_cancelled_until_it_is_and_its_number_is_kept() -> None:
    curves = {n: curve(0, n) for n in range(3)}
    first = judged(search_with(MEDIAN), curves)
    assert (first.pruned, numbers(first.cancel)) == ((0,), [0])
    sweep = search_with(MEDIAN, marks=first.marks, pruned=first.pruned)
    assert numbers(judged(sweep, curves).cancel) == [0], "the request was lost"
    after = judged(sweep, curves, Phase.CANCELLED, RUNNING, RUNNING)
    assert (after.cancel, after.pruned, after.marks) == ((), (0,), first.marks)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param((1, 2, 2, 2), [], id="two steps without a better value"),
        pytest.param((1, 2, 2, 2, 2), [0], id="three of them"),
        pytest.param((1, 2, 1, 1, 3), [], id="better again"),
    ],
)
def test_patience_ends_with_steps_that_are_no_better(values: tuple[float, ...], want: list[int]) -> None:
    rule = Stopping(rule=Rule.PATIENCE, patience=3)
    assert numbers(judged(search_with(rule), {0: curve(*values)}).cancel) == want


def test_asha_rests_trials_at_a_rung_and_lets_the_best_third_go_on() -> None:
    sweep = search_with(ASHA)
    first = judged(sweep, {0: curve(5), 1: curve(7)})
    assert numbers(first.halt) == [0, 1], "nobody knows yet whether they are among the best third"
    resting = search_with(ASHA, marks=first.marks)
    third = judged(resting, {2: curve(6)}, Phase.HALTED, Phase.HALTED, RUNNING)
    assert (numbers(third.halt), numbers(third.resume)) == ([2], [1])
    assert [mark.trial for mark in third.marks if mark.passed] == [1]


def test_who_is_among_the_best_on_arrival_does_not_rest() -> None:
    marks = (Mark(trial=0, step=1, value=1.0), Mark(trial=1, step=1, value=2.0))
    found = judged(search_with(ASHA, marks=marks), {2: curve(3)}, Phase.HALTED, Phase.HALTED, RUNNING)
    assert (found.halt, found.resume) == ((), ())
    assert found.marks[2] == Mark(trial=2, step=1, value=3.0, passed=True)


def test_without_room_nobody_goes_on_and_the_highest_rung_goes_first() -> None:
    low = tuple(Mark(trial=n, step=1, value=float(n), passed=n in (3, 4, 5)) for n in range(6))
    high = tuple(Mark(trial=n, step=3, value=float(n)) for n in (3, 4, 5))
    sweep = search_with(ASHA, marks=(*low, *high))
    resting = [Phase.HALTED] * 6
    assert judged(sweep, {}, *resting, room=0).resume == ()
    assert numbers(judged(sweep, {}, *resting, room=1).resume) == [5]


def test_a_lost_request_to_go_on_is_made_again() -> None:
    marks = (Mark(trial=0, step=1, value=1.0, passed=True),)
    assert numbers(judged(search_with(ASHA, marks=marks), {}, Phase.HALTED, room=0).resume) == [0]
    assert judged(search_with(ASHA, marks=marks), {}, Phase.HALTING).resume == ()
    assert judged(search_with(ASHA, marks=marks), {}, Phase.RESUMED).resume == ()


def test_hyperband_compares_within_brackets_whose_first_rungs_differ() -> None:
    rule = Stopping(rule=Rule.HYPERBAND, first=1, factor=3, last=9)
    rungs = [rule.rungs(trial) for trial in range(17)]
    assert rungs[:9] == [(1, 3)] * 9, "the most begin where they are judged first"
    assert rungs[9:14] == [(3,)] * 5
    assert rungs[14:] == [()] * 3, "the fewest are never judged"
    assert rule.rungs(17) == (1, 3), "and again"
    marks = tuple(Mark(trial=n, step=3, value=float(n)) for n in range(14))
    passed = [
        mark.trial for mark in judged(search_with(rule, marks=marks), {}, *[Phase.HALTED] * 14).marks if mark.passed
    ]
    assert passed == [6, 7, 8, 13], "the best third of each bracket"


@pytest.mark.parametrize(("rule", "most"), [(Rule.PATIENCE, 0.2), (Rule.ASHA, 7), (Rule.HYPERBAND, 17)])
def test_trials_that_have_ended_cost_a_long_sweep_next_to_nothing(rule: Rule, most: float) -> None:
    sweep = search_with(Stopping(rule=rule, first=1, factor=3, last=9, patience=2))
    (running,) = trials_in(sweep, RUNNING)
    outcome = Tried(number=0, values={}, outcome=Outcome.STOPPED, results=(1.0,))
    count = 2000
    ended = [
        replace(running, assignment=replace(running.assignment, number=number), tried=replace(outcome, number=number))
        for number in range(1, count)
    ]
    past = gather(sweep, None, ended)
    marks = tuple(Mark(trial=number, step=1, value=float(number % 7), passed=True) for number in range(1, count))
    sweep = replace(sweep, status=replace(sweep.status, marks=marks, begun=count))
    calls = 0

    def count_call(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count_call)
    try:
        plan(sweep, [running], START, {0: curve(3)}, past=past)
    finally:
        sys.setprofile(None)
    assert calls < most * count, f"{calls / count:.1f} for each of them"


def test_a_smaller_loss_is_better_and_steps_are_counted_where_none_is_reported() -> None:
    sweep = search_with(MEDIAN, goal=Goal.MINIMIZE)
    trials = trials_in(sweep, RUNNING)
    said = [("accuracy", 3.0), ("other", 9.0), ("accuracy", float("nan")), ("accuracy", 1.0)]
    reports = [
        Metric(job_id=trials[0].job.id, replica=CHIEF, name=name, value=value, step=None, at=Timestamp(at))
        for at, (name, value) in enumerate(said)
    ]
    assert curves_of(sweep, trials, reports) == {0: [(1, -3.0), (2, -sys.float_info.max), (3, -1.0)]}


@pytest.mark.parametrize("goal", list(Goal))
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_trial_that_diverged_rests_at_its_rung_and_never_goes_on(goal: Goal, value: float) -> None:
    sweep = search_with(replace(ASHA, factor=2), goal=goal)
    trials = trials_in(sweep, RUNNING, RUNNING)
    found = judge(sweep, trials, curves_of(sweep, trials, [report(trial, 1, value) for trial in trials]), 9)
    assert (numbers(found.halt), found.resume, [mark.passed for mark in found.marks]) == ([0, 1], (), [False, False])
    last = planned(replace(sweep, status=replace(sweep.status, marks=found.marks, begun=9)), {}, *[Phase.HALTED] * 2)
    assert last.end is not None, "nobody is left who is worth a whole run"


def report(trial: Trial, step: int, value: float, at: float | None = None) -> Metric:
    moment = Timestamp(START + (step if at is None else at))
    return Metric(job_id=trial.job.id, replica=CHIEF, name="accuracy", value=value, step=step, at=moment)


@settings(max_examples=200, deadline=None)
@given(
    rule=st.sampled_from(
        [
            MEDIAN,
            replace(ASHA, last=20),
            replace(ASHA, rule=Rule.HYPERBAND, last=20),
            replace(ASHA, rule=Rule.PBT, first=2, last=20),
            replace(ASHA, unit=Unit.TIME, last=20),
            replace(ASHA, unit=Unit.EPOCHS, last=20),
            Stopping(rule=Rule.PATIENCE, patience=3),
        ]
    ),
    said=st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.0, 1.0, 2.0, float("nan")])), max_size=30),
    pages=st.integers(1, 7),
    number=st.integers(0, 8),
)
def test_what_is_left_of_many_reports_decides_as_all_of_them_would(
    rule: Stopping, said: list[tuple[int, float]], pages: int, number: int
) -> None:
    sweep = search_with(rule)
    trial = trials_in(sweep, *[RUNNING] * 9)[number]
    reports = [report(trial, step, value, at=place) for place, (step, value) in enumerate(said)]
    kept = list[Metric]()
    for first in range(0, len(reports), pages):
        kept = list(sift(sweep, trial.job, [*kept, *reports[first : first + pages]]))
    few, many = (judge(sweep, [trial], curves_of(sweep, [trial], each), 9) for each in (kept, reports))
    assert few == many
    if rule.unit is not Unit.EPOCHS:
        assert len(kept) <= 10


def planned(sweep: Sweep, curves: Mapping[int, Curve], *phases: Phase) -> Plan:
    return plan(sweep, trials_in(sweep, *phases), START, curves)


def test_a_trial_that_rests_leaves_its_place_to_another() -> None:
    sweep = search_with(ASHA, parallelism=1, marks=(Mark(trial=0, step=1, value=1.0),), begun=1)
    assert [each.number for each in planned(sweep, {}, Phase.HALTED).start] == [1]
    assert planned(sweep, {}, Phase.HALTING).start == ()


def test_at_the_end_the_best_goes_on_if_nothing_was_run_to_its_end_and_the_rest_is_cancelled() -> None:
    marks = (Mark(trial=0, step=1, value=1.0), Mark(trial=1, step=1, value=2.0))
    spec_end = {"begun": 9, "marks": marks}
    sweep = search_with(ASHA, **spec_end)
    wanted = planned(sweep, {}, Phase.HALTED, Phase.HALTED)
    assert (wanted.over, wanted.end, [mark.trial for mark in wanted.marks if mark.passed]) == (False, None, [1])
    sweep = search_with(ASHA, begun=9, marks=wanted.marks)
    assert numbers(planned(sweep, {}, Phase.HALTED, Phase.HALTED).resume) == [1]
    done = planned(sweep, {}, Phase.HALTED, Phase.COMPLETED)
    assert (done.over, done.end and done.end.reason) == (False, EndReason.TRIALS_USED)
    last = planned(search_with(ASHA, begun=9, marks=wanted.marks, end=done.end), {}, Phase.HALTED, Phase.COMPLETED)
    assert (numbers(last.cancel), last.over) == ([0], False)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"rule": Rule.ASHA}, "stopping.last: asha needs the steps of a whole run", id="no last"),
        pytest.param({"rule": Rule.ASHA, "last": 9, "factor": 1}, "stopping.factor: 1 is too small", id="factor"),
        pytest.param({"rule": Rule.PATIENCE}, "stopping.patience: steps are needed", id="patience"),
        pytest.param({"rule": Rule.PERCENTILE, "percentile": 100}, "stopping.percentile: 100 is outside", id="all"),
    ],
)
def test_impossible_rules_are_refused(fields: dict[str, object], want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        Stopping(**fields)  # type: ignore[arg-type]


def test_a_rule_needs_one_objective() -> None:
    with pytest.raises(InvalidInputError, match="trials are stopped by one objective"):
        replace(make_sweep(objective=None).spec, stopping=MEDIAN)
