"""Times of cron expressions, above all where clocks are put forward and back."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.errors import InvalidInputError
from gangline.model import Timestamp
from gangline.pipelines.cron import latest_time, next_time, read_cron, time_zone

BERLIN = "Europe/Berlin"


def times(text: str, start: str, count: int, zone: str = "UTC") -> list[str]:
    """Return the next times as the clock of the zone shows them, with its offset."""
    there = time_zone(zone)
    at, found = Timestamp(datetime.fromisoformat(start).timestamp()), []
    for _ in range(count):
        following = next_time(read_cron(text), there, at)
        assert following is not None
        assert following > at
        at = following
        found.append(datetime.fromtimestamp(at, ZoneInfo(zone) if zone != "UTC" else UTC).strftime("%m-%dT%H:%M:%S%z"))
    return found


CASES = {
    "every minute": ("* * * * *", "2026-01-01T00:00:30Z", ["01-01T00:01:00+0000", "01-01T00:02:00+0000"]),
    "not the instant itself": ("0 3 * * *", "2026-01-01T03:00:00Z", ["01-02T03:00:00+0000"]),
    "seconds first": ("*/20 59 23 * * *", "2026-01-01T23:59:20Z", ["01-01T23:59:40+0000", "01-02T23:59:00+0000"]),
    "steps and lists": ("5-50/20,59 8 * * *", "2026-01-01T08:25:00Z", ["01-01T08:45:00+0000", "01-01T08:59:00+0000"]),
    "from a number on": ("50/5 0 * * *", "2026-01-01T00:00:00Z", ["01-01T00:50:00+0000", "01-01T00:55:00+0000"]),
    "names": ("0 0 * FEB mon-tue", "2026-01-20T00:00:00Z", ["02-02T00:00:00+0000", "02-03T00:00:00+0000"]),
    "seven is Sunday": ("0 0 * * 7", "2026-01-01T00:00:00Z", ["01-04T00:00:00+0000"]),
    "either day": ("0 0 13 * fri", "2026-02-01T00:00:00Z", ["02-06T00:00:00+0000", "02-13T00:00:00+0000"]),
    "a day that few months have": ("0 0 31 * *", "2026-01-31T00:00:00Z", ["03-31T00:00:00+0000"]),
    "a day that few years have": ("0 0 29 2 *", "2026-01-31T00:00:00Z", ["02-29T00:00:00+0000"]),
    "a word": ("@hourly", "2026-01-01T05:10:00Z", ["01-01T06:00:00+0000"]),
}


@pytest.mark.parametrize(("text", "start", "want"), CASES.values(), ids=CASES)
def test_next_times(text: str, start: str, want: list[str]) -> None:
    assert times(text, start, len(want)) == want


def test_what_falls_into_the_missing_hour_happens_once_and_later() -> None:
    want = ["03-28T02:30:00+0100", "03-29T03:30:00+0200", "03-30T02:30:00+0200"]
    assert times("30 2 * * *", "2026-03-27T12:00:00Z", 3, BERLIN) == want
    want = ["03-29T01:30:00+0100", "03-29T03:30:00+0200", "03-29T04:30:00+0200"]
    assert times("30 * * * *", "2026-03-29T00:00:00Z", 3, BERLIN) == want


def test_what_names_an_hour_happens_once_where_it_comes_twice_and_what_does_not_happens_in_both() -> None:
    want = ["10-24T02:30:00+0200", "10-25T02:30:00+0200", "10-26T02:30:00+0100"]
    assert times("30 2 * * *", "2026-10-23T12:00:00Z", 3, BERLIN) == want
    want = ["10-25T01:30:00+0200", "10-25T02:30:00+0200", "10-25T02:30:00+0100", "10-25T03:30:00+0100"]
    assert times("30 * * * *", "2026-10-24T23:00:00Z", 4, BERLIN) == want


WRONG = [
    "",
    "* * * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * * 13 *",
    "* * * * 8",
    "*/0 * * * *",
    "5-1 * * * *",
]
WRONG += ["a * * * *", "* * * * mon-", "0 0 31 2 *", "0 0 L * *", "1,,2 * * * *", "* * * * * * *"]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_not_an_expression_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_cron(text)
    assert caught.value.field == "spec.cron"


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "/etc/passwd", "Europe"])
def test_an_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError):
        time_zone(name)


@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 */6 * * *", "15,45 * * * mon"]),
    st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe"]),
    st.integers(1_770_000_000, 1_800_000_000),
    st.integers(0, 3 * 86400),
)
def test_the_latest_time_is_the_last_of_the_next_ones(text: str, zone: str, start: int, length: int) -> None:
    cron, there = read_cron(text), time_zone(zone)
    after, until = Timestamp(float(start)), Timestamp(float(start + length))
    last, at = None, after
    while (at := next_time(cron, there, at)) is not None and at <= until:  # type: ignore[assignment]
        last = at
    assert latest_time(cron, there, after, until) == last
