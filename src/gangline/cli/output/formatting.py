"""Numbers as people write them, and durations as people type them."""

from gangline.dialects import quantities
from gangline.errors import InvalidInputError
from gangline.model.jobs.spec import MOST_SECONDS
from gangline.model.wording import ago, amount, counted, cpu, duration, memory, named_amounts, number, size

__all__ = ["ago", "amount", "counted", "cpu", "duration", "memory", "named_amounts", "number", "read_duration", "size"]


def read_duration(text: str, option: str) -> float:
    """Read 90, 90s, 1h30m or 7d as seconds, as in a job file."""
    try:
        seconds = quantities.seconds(text)
    except ValueError as error:
        raise InvalidInputError(f"'{text}' {error}", field=option, expected=quantities.DURATION_FORM) from error
    if seconds > MOST_SECONDS:
        raise InvalidInputError("the time is too long", field=option, expected="at most 100 years")
    return seconds
