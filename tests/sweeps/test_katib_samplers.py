"""Brackets by a resource, and generations: which trials come next, given those there were."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gangline.model.kinds.sweep import Budget, Goal, Objective, Setting, SweepSpec
from gangline.model.record import RecordId
from gangline.model.search.parameter import Parameter, Range
from gangline.sweeps import Outcome, Search, Tried
from gangline.sweeps.brackets import BracketSampler, rungs
from gangline.sweeps.generations import PARENT, GenerationSampler, _changed
from gangline.testing.builders import make_spec

RATE = Parameter("rate", range=Range(low=0.0, high=1.0))
EPOCHS = Parameter("epochs", range=Range(low=1, high=9, whole=True))


def spec(sampler: str, **settings: Setting) -> SweepSpec:
    return SweepSpec(
        name="search",
        template=make_spec(),
        parameters=(RATE, EPOCHS),
        sampler=sampler,
        settings=settings,
        objective=Objective("loss", Goal.MINIMIZE),
        budget=Budget(trials=100),
    )


def search(of: SweepSpec, values: Sequence[dict[str, str]], results: Sequence[float | None]) -> Search:
    tried = tuple(
        Tried(
            number=number,
            values=each,
            outcome=Outcome.RUNNING if result is None else Outcome.COMPLETED,
            results=() if result is None else (result,),
        )
        for number, (each, result) in enumerate(zip(values, results, strict=True))
    )
    return Search(id=RecordId("s1"), spec=of, seed=1, tried=tried)


def test_brackets_begin_with_many_that_get_little() -> None:
    found = list(rungs(spec("katib-hyperband", resource="epochs", most=9, factor=3)))
    assert found == [(0, 9, "1"), (1, 3, "3"), (2, 1, "9"), (0, 5, "3"), (1, 2, "9"), (0, 3, "9")]


def test_the_best_of_a_rung_go_on_when_all_of_it_have_ended() -> None:
    sampler, of = BracketSampler(), spec("katib-hyperband", resource="epochs", most=3, factor=3)
    first = [dict(each) for each in sampler.propose(search(of, [], []), 9)]
    assert [each["epochs"] for each in first] == ["1"] * 3
    assert sampler.propose(search(of, first, [0.3, None, 0.1]), 9) == []
    (best,) = sampler.propose(search(of, first, [0.3, 0.2, 0.1]), 9)
    assert best == {**first[2], "epochs": "3"}
    rest = sampler.propose(search(of, [*first, dict(best)], [0.3, 0.2, 0.1, None]), 9)
    assert [each["epochs"] for each in rest] == ["3"] * 2, "the next bracket does not wait"
    everything = [*first, dict(best), *map(dict, rest)]
    assert sampler.propose(search(of, everything, [0.1] * 6), 9) == []


def test_it_says_the_same_when_it_is_asked_for_less_at_a_time() -> None:
    sampler, of = BracketSampler(), spec("katib-hyperband", resource="epochs", most=3, factor=3)
    at_once = sampler.propose(search(of, [], []), 9)
    (one,) = sampler.propose(search(of, [], []), 1)
    more = sampler.propose(search(of, [dict(one)], [None]), 9)
    assert [one, *more] == list(at_once)


def test_a_generation_copies_the_best_and_changes_the_others() -> None:
    sampler, of = GenerationSampler(), spec("katib-pbt", population=4, truncation=0.25)
    first = [dict(each) for each in sampler.propose(search(of, [], []), 9)]
    assert len(first) == 4
    assert sampler.propose(search(of, first, [0.1, 0.2, None, 0.4]), 9) == []
    second = sampler.propose(search(of, first, [0.1, 0.2, 0.3, 0.4]), 9)
    assert second[3] == {**first[0], PARENT: "0"}, "the worst goes on from the best"
    assert [each[PARENT] for each in second] == ["0", "1", "2", "0"]
    assert all(second[place]["rate"] != first[place]["rate"] for place in range(3))
    assert all(0 <= float(each["rate"]) <= 1 for each in second)


def test_a_population_of_one_is_the_default() -> None:
    sampler, of = GenerationSampler(), spec("katib-pbt")
    (first,) = sampler.propose(search(of, [], []), 9)
    assert len(sampler.propose(search(of, [dict(first)], [0.1]), 9)) == 1


def test_values_are_drawn_anew_with_the_probability_of_the_setting() -> None:
    values = [{"rate": "0.5", "epochs": "5"}, {"rate": "0.25", "epochs": "4"}]
    for probability, same in ((0.0, True), (1.0, False)):
        of = spec("katib-pbt", population=2, truncation=0.5, resample=probability)
        best, worst = GenerationSampler().propose(search(of, values, [0.1, 0.9]), 9)
        assert worst == {**values[0], PARENT: "0"}
        assert best[PARENT] == "0"
        assert (best["rate"] == "0.5") is same
        assert 0.0 <= float(best["rate"]) <= 1.0


def test_the_neighbour_of_a_choice_is_a_choice() -> None:
    depth = Parameter("depth", values=("small", "large"))
    of = replace(spec("katib-pbt", population=2, truncation=0.5), parameters=(depth,))
    values = [{"depth": "small"}, {"depth": "large"}]
    drawn = {
        GenerationSampler().propose(replace(search(of, values, [0.1, 0.9]), seed=seed), 9)[0]["depth"]
        for seed in range(20)
    }
    assert drawn == {"small", "large"}


class Chosen(random.Random):
    """Always takes the first of what it may choose from, or the last."""

    def __init__(self, place: int) -> None:
        super().__init__(0)
        self._place = place

    def choice(self, seq: Sequence[float]) -> float:
        return seq[self._place]


LETTERS = Parameter("letter", values=("a", "b", "c"))
HIGH = Parameter("rate", range=Range(low=0.5, high=1.0))


@pytest.mark.parametrize(
    ("parameter", "value", "want_less", "want_more"),
    [
        pytest.param(LETTERS, "b", "a", "c", id="the neighbours of a choice"),
        pytest.param(LETTERS, "a", "a", "b", id="the first choice"),
        pytest.param(LETTERS, "c", "b", "c", id="the last choice"),
        pytest.param(HIGH, "0.75", 0.6, 0.9, id="a fifth less or more"),
        pytest.param(HIGH, "0.55", 0.5, 0.66, id="not below the range"),
        pytest.param(HIGH, "0.9", 0.72, 1.0, id="not above the range"),
        pytest.param(EPOCHS, "5", "4", "6", id="whole numbers"),
    ],
)
def test_a_value_becomes_a_little_less_or_more(
    parameter: Parameter, value: str, want_less: str | float, want_more: str | float
) -> None:
    for place, want in ((0, want_less), (-1, want_more)):
        found = _changed(parameter, value, Chosen(place), None)
        assert found == want if isinstance(want, str) else float(found) == pytest.approx(want)
