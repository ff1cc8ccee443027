"""How far workers may run apart, and what a late push weighs."""

import pytest

from gangline.ps.consistency import Consistency, Mode, parse_consistency
from gangline.ps.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("bsp", Consistency(mode=Mode.BSP)),
        ("ssp:3", Consistency(mode=Mode.SSP, bound=3)),
        ("async", Consistency()),
        ("async:cutoff=20", Consistency(cutoff=20)),
        ("async:scaled", Consistency(scaled=True)),
    ],
)
def test_short_forms_are_understood(text: str, want: Consistency) -> None:
    assert parse_consistency(text) == want


@pytest.mark.parametrize("text", ["", "bsp:1", "ssp", "ssp:x", "ssp:-1", "async:fast", "async:cutoff=", "hogwild"])
def test_anything_else_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(SettingsError, match=f"'{text}'"):
        parse_consistency(text)


@pytest.mark.parametrize(
    ("rule", "clock", "slowest", "want"),
    [
        pytest.param("bsp", 5, 5, True, id="bsp: all are there"),
        pytest.param("bsp", 5, 4, False, id="bsp: one is missing"),
        pytest.param("ssp:2", 7, 5, True, id="ssp: at the bound"),
        pytest.param("ssp:2", 8, 5, False, id="ssp: past the bound"),
        pytest.param("async", 99, 0, True, id="async: nobody waits"),
    ],
)
def test_who_may_pass(rule: str, clock: int, slowest: int, want: bool) -> None:
    assert parse_consistency(rule).may_pass(clock, slowest) is want


@pytest.mark.parametrize(
    ("rule", "staleness", "want"),
    [
        pytest.param("async", 50, 1.0, id="plain"),
        pytest.param("async:cutoff=4", 4, 1.0, id="at the cut-off"),
        pytest.param("async:cutoff=4", 5, 0.0, id="past the cut-off"),
        pytest.param("async:scaled", 0, 1.0, id="scaled, fresh"),
        pytest.param("async:scaled", 4, 0.25, id="scaled, old"),
    ],
)
def test_what_an_old_push_weighs(rule: str, staleness: int, want: float) -> None:
    assert parse_consistency(rule).weight(staleness) == want
