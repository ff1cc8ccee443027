"""Numbers as people write them."""

import re

from gangline.errors import InvalidInputError
from gangline.model import Resources, Timestamp
from gangline.model.spec import MOST_SECONDS

_UNITS = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+|\d+(?:\.\d+)?")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw]?)")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def counted(number: int, noun: str) -> str:
    """Write so many of something: '1 job', '2 jobs'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """Write a duration with its two largest units: 45s, 3m 20s, 2h 5m, 4d 3h."""
    rest = max(0.0, seconds)
    if rest < 10:
        return f"{rest:.1f}s".replace(".0s", "s")
    parts = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count:.0f}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def ago(at: Timestamp | None, now: Timestamp) -> str:
    """Write a time as people speak of it; clocks that differ a little do not lead into the future."""
    if at is None:
        return "-"
    elapsed = now - at
    if elapsed < 1:
        return "now"
    for unit, size in _UNITS:
        if elapsed >= 2 * size or unit == "s":
            return f"{elapsed // size:.0f}{unit} ago"
    return "now"


def read_duration(text: str, option: str) -> float:
    """Read 90, 90s, 1h30m or 7d as seconds."""
    if not _DURATION.fullmatch(text):
        raise InvalidInputError(f"'{text}' is no duration", field=option, expected="for example 90s, 1h30m or 7d")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if seconds > MOST_SECONDS:
        raise InvalidInputError("the time is too long", field=option, expected="at most 100 years")
    return seconds


def cpu(millis: int) -> str:
    """Write CPUs."""
    return f"{millis / 1000:.2f}".rstrip("0").rstrip(".")


def memory(mib: int) -> str:
    """Write an amount of memory."""
    return f"{mib / 1024:.1f} GiB".replace(".0 ", " ") if mib >= 1024 else f"{mib} MiB"


def amount(resources: Resources) -> str:
    """Write what a replica needs or a node has."""
    parts = [f"{cpu(resources.cpu_millis)} CPU"]
    if resources.memory_mib:
        parts.append(memory(resources.memory_mib))
    if resources.gpu_millis:
        parts.append(f"{resources.gpus:g} GPU")
    parts += [f"{count} {name}" for name, count in resources.extended.items()]
    return ", ".join(parts)


def number(value: float) -> str:
    """Write a metric."""
    return f"{value:.6g}"
