"""What a sweep found: ranking, Pareto front, history, importance, and the winner as a job."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.model import JobId, Phase, Timestamp
from gangline.model.kinds.sweep import Budget, Goal, Objective, SweepState, SweepStatus, TrialStatus
from gangline.model.search.parameter import Parameter, Range
from gangline.sweeps import history, ranked, results, winner_to_job
from gangline.sweeps.results import importance, pareto_front
from gangline.testing.builders import START, make_sweep

SPEC = make_sweep().spec


def trial(number: int, *, ended: float = 0.0, phase: Phase = Phase.COMPLETED, **results: float) -> TrialStatus:
    return TrialStatus(
        number=number,
        values={"layers": "2", "rate": "0.1"},
        job=f"grid-{number}",
        job_id=JobId(f"s-{number}"),
        phase=phase,
        reason="Test",
        created_at=START,
        finished_at=Timestamp(ended),
        result=results.get("accuracy"),
        results=results,
    )


def shown(*trials: TrialStatus, goal: Goal = Goal.MAXIMIZE) -> SweepStatus:
    spec = replace(SPEC, objective=Objective("accuracy", goal))
    sweep = make_sweep()
    return SweepStatus(id=sweep.id, spec=spec, state=SweepState.FINISHED, created_at=START, trials=trials)


@pytest.mark.parametrize(("goal", "want"), [(Goal.MAXIMIZE, [1, 2, 0]), (Goal.MINIMIZE, [0, 1, 2])])
def test_trials_are_ranked_by_the_goal_and_equal_ones_by_number(goal: Goal, want: list[int]) -> None:
    sweep = shown(trial(0, accuracy=0.1), trial(1, accuracy=0.5), trial(2, accuracy=0.5), trial(3), goal=goal)
    assert [each.number for each in ranked(sweep)] == want


def test_the_history_goes_by_the_time_at_which_trials_ended() -> None:
    trials = (trial(0, ended=9, accuracy=0.3), trial(1, ended=1, accuracy=0.1), trial(2, ended=5, accuracy=0.6))
    unended = trial(3, phase=Phase.PROCESSING, accuracy=0.9)
    assert [(each.trial.number, each.best) for each in history(shown(*trials, unended))] == [
        (1, 0.1),
        (2, 0.6),
        (0, 0.6),
    ]
    assert [each.best for each in history(shown(*trials, goal=Goal.MINIMIZE))] == [0.1, 0.1, 0.1]


BOTH = replace(SPEC, objective=Objective("accuracy"), other_objectives=(Objective("size", Goal.MINIMIZE),))
POINTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


@given(POINTS)
def test_the_pareto_front_holds_exactly_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    trials = [trial(number, accuracy=good, size=bad) for number, (good, bad) in enumerate(points)]
    want = tuple(
        number
        for number, (good, bad) in enumerate(points)
        if not any(g >= good and b <= bad and (g, b) != (good, bad) for g, b in points)
    )
    assert pareto_front(BOTH, [*trials, trial(99, accuracy=9.0)]) == want


THREE = replace(BOTH, other_objectives=(*BOTH.other_objectives, Objective("time", Goal.MINIMIZE)))


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=12))
def test_the_pareto_front_of_three_objectives_holds_exactly_what_nothing_beats(
    points: list[tuple[int, int, int]],
) -> None:
    trials = [trial(number, accuracy=good, size=bad, time=long) for number, (good, bad, long) in enumerate(points)]
    want = tuple(
        number
        for number, (good, bad, long) in enumerate(points)
        if not any(g >= good and b <= bad and t <= long and (g, b, t) != (good, bad, long) for g, b, t in points)
    )
    assert pareto_front(THREE, trials) == want


def test_a_front_of_thousands_is_found_by_comparing_each_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    count, compared, beats = 2000, 0, results._beats

    def counted(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        nonlocal compared
        compared += 1
        return beats(one, other)

    monkeypatch.setattr(results, "_beats", counted)
    trials = [trial(number, accuracy=number, size=number) for number in range(count)]  # the better, the larger
    assert pareto_front(BOTH, trials) == tuple(range(count))
    assert compared < 2 * count


def test_a_parameter_that_decides_is_more_important_than_one_that_does_not() -> None:
    space = (
        Parameter("big", range=Range(low=0.0, high=1.0)),
        Parameter("small", range=Range(low=0.0, high=1.0)),
        Parameter("none", ("a", "b")),
        Parameter("constant", ("7",)),
    )
    spec = replace(SPEC, parameters=space, sampler="random", budget=Budget(trials=1))
    source = random.Random(1)
    trials = []
    for number in range(200):
        big, small = source.random(), source.random()
        values = {"big": repr(big), "small": repr(small), "none": source.choice("ab"), "constant": "7"}
        trials.append(replace(trial(number, accuracy=3 * big + small), values=values))
    found = importance(spec, trials)
    assert list(found) == ["big", "small", "none"]
    assert found["big"] > 0.8
    assert 0.02 < found["small"] < 0.2
    assert found["none"] < 0.02
    assert importance(spec, trials[:9]) == {}, "too few to say anything"


def test_results_that_do_not_vary_are_explained_by_nothing() -> None:
    trials = [replace(trial(n, accuracy=1.0), values={"layers": str(n % 3 + 1), "rate": "0.1"}) for n in range(12)]
    assert importance(SPEC, trials) == {"layers": 0.0, "rate": 0.0}


def test_the_winner_is_a_job_of_its_own() -> None:
    sweep = shown(trial(4, accuracy=1.0))
    job = winner_to_job(sweep, sweep.trials[0])
    assert (job.name, job.labels) == ("grid-best", {})
    assert job.roles[0].command[-2:] == ("2", "0.1")
