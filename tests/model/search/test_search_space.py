"""Search spaces: ranges, conditions, every combination, and what is refused."""

import math
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gangline.errors import InvalidInputError
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.search_space import (
    check_space,
    check_values,
    combinations,
    completed,
    count_combinations,
    exists,
)

FRACTIONS = st.floats(0, 1, exclude_max=True)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    whole, log = draw(st.booleans()), draw(st.booleans())
    low = draw(st.integers(1 if log else -1000, 1000)) if whole else draw(st.floats(1e-6 if log else -1e6, 1e6))
    width = draw(st.integers(0, 1000)) if whole else draw(st.floats(0, 1e6))
    step = None if log else draw(st.none() | (st.integers(1, 50) if whole else st.floats(1e-3, 1e3)))
    return Range(low=low, high=low + width, step=step, log=log, whole=whole)


@st.composite
def spaces(draw: st.DrawFn) -> tuple[Parameter, ...]:
    """Choices and whole numbers, some of which exist only beside values of those above."""
    found: list[Parameter] = []
    for name in "abcd"[: draw(st.integers(1, 4))]:
        above = [each for each in found if each.values]
        when: tuple[tuple[str, tuple[str, ...]], ...] = ()
        if above and draw(st.booleans()):
            parent = draw(st.sampled_from(above))
            when = ((parent.name, (draw(st.sampled_from(parent.values)),)),)
        if draw(st.booleans()):
            found.append(Parameter(name, tuple("xyz"[: draw(st.integers(1, 3))]), when=when))
        else:
            found.append(Parameter(name, range=Range(low=1, high=draw(st.integers(1, 3)), whole=True), when=when))
    return tuple(found)


@given(ranges(), FRACTIONS)
@example(Range(low=262143.0, high=262145.625, step=0.001), 0.5)
def test_every_point_of_a_range_is_written_as_one_of_its_values(found: Range, fraction: float) -> None:
    assert found.holds(found.at(fraction))


@given(ranges())
def test_a_written_value_reads_back_as_the_same_number(found: Range) -> None:
    assert float(found.text(found.low)) == found.low


@given(ranges(), FRACTIONS, FRACTIONS)
def test_a_larger_fraction_never_gives_a_smaller_value(found: Range, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert float(found.at(low)) <= float(found.at(high))


@given(spaces())
def test_every_combination_is_different_and_within_the_space(parameters: tuple[Parameter, ...]) -> None:
    check_space(parameters)
    every = list(combinations(parameters))
    assert len({tuple(each.items()) for each in every}) == len(every) == count_combinations(parameters)
    for values in every:
        check_values(parameters, values)
        assert completed(parameters, values) == values
        for parameter in parameters:
            assert (parameter.name in values) == exists(parameter, values)


@given(spaces())
def test_no_combination_is_left_out(parameters: tuple[Parameter, ...]) -> None:
    """The plain product, with what does not exist taken out of each, is the same set."""
    want = set()
    for chosen in product(*(parameter.listed() for parameter in parameters)):
        values: dict[str, str] = {}
        for parameter, value in zip(parameters, chosen, strict=True):
            if exists(parameter, values):
                values[parameter.name] = value
        want.add(tuple(values.items()))
    assert {tuple(each.items()) for each in combinations(parameters)} == want


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(Range(low=1, high=3, whole=True), ("1", "2", "3"), id="whole numbers"),
        pytest.param(Range(low=16, high=64, step=16, whole=True), ("16", "32", "48", "64"), id="in steps"),
        pytest.param(Range(low=0, high=10, step=4, whole=True), ("0", "4", "8"), id="the end is not reached"),
        pytest.param(Range(low=0.1, high=0.5, step=0.1), ("0.1", "0.2", "0.3", "0.4", "0.5"), id="decimals are exact"),
        pytest.param(Range(low=2, high=2), ("2.0",), id="one number"),
    ],
)
def test_a_range_with_steps_lists_its_values(found: Range, want: tuple[str, ...]) -> None:
    assert Parameter("a", range=found).listed() == want


def test_what_lies_between_two_steps_is_not_a_value() -> None:
    assert Range(low=0.0, high=1.0, step=0.25).holds("0.75")
    assert not Range(low=0.0, high=1.0, step=0.25).holds("0.7")
    assert not Range(low=1, high=9, whole=True).holds("2.5")
    assert not Range(low=1, high=9, whole=True).holds("ten")


def test_on_a_log_scale_every_factor_is_as_likely() -> None:
    found = Range(low=1e-4, high=1, log=True)
    assert [round(math.log10(float(found.at(part / 4))), 9) for part in range(4)] == [-4, -3, -2, -1]


def test_whole_numbers_on_a_log_scale_reach_both_ends() -> None:
    found = Range(low=1, high=8, log=True, whole=True)
    assert {found.at(part / 1000) for part in range(1000)} == {str(number) for number in range(1, 9)}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"low": 2, "high": 1}, "min: the space is empty", id="empty"),
        pytest.param({"low": 0, "high": 1, "log": True}, "min: a log scale begins above 0", id="log from 0"),
        pytest.param({"low": 1, "high": 2, "log": True, "step": 1}, "step: a log scale has no steps", id="log, step"),
        pytest.param({"low": 0, "high": 1, "step": 0}, "step: 0 is too small", id="step 0"),
        pytest.param({"low": 0.5, "high": 1, "whole": True}, "min: 0.5 is not a whole number", id="not whole"),
        pytest.param({"low": 0, "high": math.inf}, "max: inf cannot be searched", id="infinite"),
        pytest.param({"low": math.nan, "high": 1}, "min: nan cannot be searched", id="not a number"),
    ],
)
def test_impossible_ranges_are_refused(fields: dict[str, float], want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        Range(**fields)  # type: ignore[arg-type]


OPTIMIZER = Parameter("optimizer", ("adam", "sgd"))
NESTEROV = Parameter("nesterov", ("yes", "no"), when=(("optimizer", ("sgd",)),))


@pytest.mark.parametrize(
    ("last", "want"),
    [
        pytest.param(
            Parameter("a", ("1",), when=(("nothing", ("1",)),)), "'nothing' is not a parameter above 'a'", id="unknown"
        ),
        pytest.param(
            Parameter("a", ("1",), when=(("optimizer", ("lion",)),)), "'optimizer' is never 'lion'", id="never"
        ),
        pytest.param(Parameter("a", ("1",), when=(("optimizer", ()),)), "no value is named", id="no value"),
        pytest.param(
            Parameter("a", ("1",), when=(("optimizer", ("adam",)), ("nesterov", ("yes",)))),
            "the conditions contradict each other: no value of 'optimizer'",
            id="contradiction",
        ),
        pytest.param(Parameter("a", ("1",), when=(("size", ("1",)),)), "'size' is a range", id="range"),
    ],
)
def test_impossible_conditions_are_refused(last: Parameter, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        check_space((OPTIMIZER, NESTEROV, Parameter("size", range=Range(low=1, high=2)), last))


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param({"optimizer": "lion"}, "optimizer: 'lion' is outside the space", id="not a value"),
        pytest.param({}, "optimizer: the value is missing", id="missing"),
        pytest.param({"optimizer": "adam", "nesterov": "no"}, "'nesterov' does not exist beside", id="does not exist"),
        pytest.param({"optimizer": "adam", "speed": "1"}, "'speed' is not a parameter", id="unknown"),
    ],
)
def test_values_outside_the_space_are_refused(values: dict[str, str], want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        check_values((OPTIMIZER, NESTEROV), values)


def test_a_constant_need_not_be_given() -> None:
    space = (Parameter("seed", ("7",)), OPTIMIZER)
    check_values(space, {"optimizer": "adam"})
    assert completed(space, {"optimizer": "adam"}) == {"seed": "7", "optimizer": "adam"}


def test_the_order_of_conditions_means_nothing() -> None:
    """Keepers of custom resources sort names: what is read back must be equal."""
    pairs = (("optimizer", ("sgd",)), ("nesterov", ("yes",)))
    assert Parameter("a", ("1",), when=pairs) == Parameter("a", ("1",), when=pairs[::-1])
