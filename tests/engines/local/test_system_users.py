"""The numbers of system users: which may be given, and to whom."""

import pytest

from gangline.engines.local.system_users import UserRange
from gangline.errors import InvalidInputError


def test_a_range_is_read() -> None:
    assert UserRange.parse("66000-99999") == UserRange(66000, 99999)
    assert UserRange.parse("66000-66000") == UserRange(66000, 66000)
    assert UserRange.parse("none") is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("999-2000", id="users of the system"),
        pytest.param("2000-1999", id="backwards"),
        pytest.param("66000", id="one number"),
        pytest.param("66000-4294967295", id="nobody"),
        pytest.param("0-0", id="root"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_range_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="does not fit") as refusal:
        UserRange.parse(text)
    assert refusal.value.field == "system_users"


@pytest.mark.parametrize(
    ("taken", "want"),
    [
        pytest.param((), 2000, id="the first"),
        pytest.param((2000,), 2001, id="the next"),
        pytest.param((2001,), 2002, id="not one that was left out: its tenant may have been removed"),
        pytest.param((1500, 3000), 2000, id="numbers of an earlier range do not count"),
        pytest.param((2000, 2002), None, id="none is left"),
    ],
)
def test_a_new_tenant_gets_a_number_that_nobody_had(taken: tuple[int, ...], want: int | None) -> None:
    assert UserRange(2000, 2002).next_after(taken) == want
