"""Times that a cron expression or an interval means, on the clock of a time zone.

Where clocks are put forward, what would fall into the missing hour happens an hour later on the clock, and once. Where
they are put back, what names an hour happens once, and what happens every hour happens in both.
"""

import calendar
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.wording import counted

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("second", 0, 59, {}),
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_PART = re.compile(r"(?P<all>[*?])|(?P<first>\w+)(?:-(?P<last>\w+))?")
_YEARS = 9
"""How far ahead a time is looked for: the longest wait for a 29 February."""
_SHIFT = timedelta(hours=3)
"""More than any clock is ever put forward or back."""
_LOOKS_BACK = tuple(
    timedelta(seconds=each) for each in (60, 3600, 86400, 32 * 86400, 366 * 86400, _YEARS * 366 * 86400)
)


@dataclass(frozen=True, slots=True)
class Cron:
    """An expression as the numbers that each field allows."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether the day of the month or that of the week is enough, as when both are given."""

    @property
    def every_hour(self) -> bool:
        """Whether no hour is named."""
        return len(self.hours) == 24

    def walls(self, after: datetime) -> Iterator[datetime]:
        """Return the times behind one as a clock on the wall shows them, whatever its time zone: UTC stands for it."""
        start = (after + timedelta(seconds=1)).replace(microsecond=0)
        day = start.date()
        for _ in range(_YEARS * 366):
            if self._has(day.month, day.day, day.isoweekday() % 7):
                for hour in self.hours:
                    for minute in self.minutes:
                        whole = datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
                        if whole + timedelta(minutes=1) <= start:
                            continue
                        for second in self.seconds:
                            if (found := whole.replace(second=second)) >= start:
                                yield found
            day += timedelta(days=1)

    def _has(self, month: int, day: int, weekday: int) -> bool:
        if month not in self.months:
            return False
        fits = (day in self.days, weekday in self.weekdays)
        return any(fits) if self.either_day else all(fits)


@lru_cache(maxsize=256)
def read_cron(text: str, field: str = "spec.cron") -> Cron:
    """Read an expression of five fields, or of six with seconds first; raises InvalidInputError."""
    words = _NAMED.get(text.strip().lower(), text).split()
    if len(words) not in (5, 6):
        raise InvalidInputError(
            f"'{text}' has {counted(len(words), 'field')}",
            field=field,
            expected="5, or 6 with seconds first: '0 3 * * *'",
        )
    words = words if len(words) == 6 else ["0", *words]
    sets = [_numbers(word, rule, field) for word, rule in zip(words, _FIELDS, strict=True)]
    second, minute, hour, day, month, weekday = sets
    cron = Cron(
        seconds=tuple(sorted(second)),
        minutes=tuple(sorted(minute)),
        hours=tuple(sorted(hour)),
        days=frozenset(day),
        months=frozenset(month),
        weekdays=frozenset(each % 7 for each in weekday),
        either_day=words[3][0] not in "*?" and words[5][0] not in "*?",
    )
    if next(cron.walls(datetime(2024, 1, 1, tzinfo=UTC)), None) is None:
        raise InvalidInputError(f"'{text}' never happens", field=field, expected="a day that exists")
    return cron


def _numbers(word: str, rule: tuple[str, int, int, Mapping[str, int]], field: str) -> set[int]:
    name, least, most, names = rule
    found: set[int] = set()
    for part in word.split(","):
        span, slash, step = part.partition("/")
        match = _PART.fullmatch(span)
        if match is None or (slash and not (step.isdecimal() and int(step) > 0)):
            raise _wrong(part, rule, field)
        if match["all"]:
            first, last = least, min(most, 6) if name == "day of week" else most
        else:
            first = _number(match["first"], names)
            last = _number(match["last"], names) if match["last"] else (most if slash else first)
        if not least <= first <= last <= most:
            raise _wrong(part, rule, field)
        found |= set(range(first, last + 1, int(step) if slash else 1))
    return found


def _number(text: str, names: Mapping[str, int]) -> int:
    return int(text) if text.isdecimal() else names.get(text.lower(), -1)


def _wrong(part: str, rule: tuple[str, int, int, Mapping[str, int]], field: str) -> InvalidInputError:
    name, least, most, names = rule
    also = f" or {', '.join(names)}" if names else ""
    return InvalidInputError(
        f"'{part}' is not understood as the {name}",
        field=field,
        expected=f"*, {least} to {most}{also}, with -, / and ,",
    )


def time_zone(name: str, field: str = "spec.time_zone") -> tzinfo:
    """Return a time zone by its name; raises InvalidInputError."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInputError(
            f"the time zone '{name}' is not known here", field=field, expected="a name such as Europe/Berlin"
        ) from None


def next_time(cron: Cron, zone: tzinfo, after: Timestamp) -> Timestamp | None:
    """Return the first time behind an instant."""
    start = datetime.fromtimestamp(after, zone)
    wall = next(cron.walls(start.replace(tzinfo=UTC)), None)
    if wall is None:
        return None
    found = wall.replace(tzinfo=zone)
    if (start - _SHIFT).utcoffset() == (found + _SHIFT).utcoffset():
        return Timestamp(found.timestamp())
    return _next_near_a_shift(cron, zone, after, wall)


def _next_near_a_shift(cron: Cron, zone: tzinfo, after: Timestamp, wall: datetime) -> Timestamp | None:
    """Look at everything around it: the order on the wall is not the order of time."""
    start = datetime.fromtimestamp(after, zone).replace(tzinfo=UTC)
    found: list[float] = []
    for each in cron.walls(start - _SHIFT):
        if each > max(wall, start) + 2 * _SHIFT and found:
            break
        instants = {each.replace(tzinfo=zone, fold=fold).timestamp() for fold in ((0, 1) if cron.every_hour else (0,))}
        if not _exists(each, zone):
            instants = {each.replace(tzinfo=zone, fold=0).timestamp()}
        found += [instant for instant in instants if instant > after]
    return Timestamp(min(found)) if found else None


def _exists(wall: datetime, zone: tzinfo) -> bool:
    """Whether a clock on the wall ever shows it."""
    there = wall.replace(tzinfo=zone)
    return there.astimezone(UTC).astimezone(zone).replace(tzinfo=UTC) == wall


def latest_time(cron: Cron, zone: tzinfo, after: Timestamp, until: Timestamp) -> Timestamp | None:
    """Return the last time behind an instant and not behind another."""
    for back in _LOOKS_BACK:
        begin = Timestamp(max(after, until - back.total_seconds()))
        last: Timestamp | None = None
        while (found := next_time(cron, zone, begin)) is not None and found <= until:
            last = begin = found
        if last is not None or begin == after:
            return last
    return None
