"""Amounts and times as people write them: 500m, 1Gi, 0.5, 1h30m. Exact both ways, in whole units of the model."""

import math
import re
from decimal import Decimal, InvalidOperation

CPU_FORM = "a number of CPUs, for example 2, 0.5 or 500m"
MEMORY_FORM = "an amount of memory, for example 512Mi, 1Gi or 2G"
GPU_FORM = "a number of GPUs, for example 1 or 0.5"
DURATION_FORM = "a duration, for example 90 (seconds), 90s, 1h30m or 7d"
COUNT_FORM = "a whole number, zero or more"

_MIB = 1024 * 1024
_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "K": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_QUANTITY = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?0*[0-9]{1,2})?)\s*([A-Za-z]*?)[bB]?\s*")
AMOUNT_PATTERN = (
    r"^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*[0-9]{1,2})?\s*("
    + "|".join(filter(None, _SUFFIXES))
    + r")?[bB]?\s*$"
)
"""What ``quantity`` takes, for whoever can only compare with a pattern."""
DURATION_PATTERN = (
    r"^\s*([0-9]+(\.[0-9]+)?(ms|w|d|h|m|s))+\s*$|^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*[0-9]{1,2})?\s*$"
)
"""What ``seconds`` takes, likewise."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*[0-9]{1,2})?")
_TIME_UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|w|d|h|m|s)")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_MOST = 2**53
"""Beyond this a number no longer survives JSON; nothing real is that large."""


def quantity(value: str | int | float) -> Decimal:
    """Read a number with an optional Kubernetes suffix; raises ``ValueError`` with the rest of a sentence."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match[2] not in _SUFFIXES:
        raise ValueError("is not an amount")
    try:
        number = Decimal(match[1]) * _SUFFIXES[match[2]]
    except InvalidOperation as error:
        raise ValueError("is not an amount") from error
    if number < 0:
        raise ValueError("is negative")
    return number


def cpu_millis(value: str | int | float) -> int:
    """Read CPUs as thousandths, rounded up."""
    return _whole(quantity(value) * 1000)


def memory_mib(value: str | int | float) -> int:
    """Read memory as MiB, rounded up; a bare number is bytes, as in Kubernetes."""
    return _whole(quantity(value) / _MIB)


def gpu_millis(value: str | int | float) -> int:
    """Read GPUs as thousandths; finer fractions are refused."""
    millis = quantity(value) * 1000
    if millis != millis.to_integral_value():
        raise ValueError("is finer than a thousandth of a GPU")
    return _whole(millis)


def count(value: str | int | float) -> int:
    """Read an amount that only comes whole."""
    number = quantity(value)
    if number != number.to_integral_value():
        raise ValueError("is not a whole number")
    return _whole(number)


def seconds(value: str | int | float) -> float:
    """Read a time; a bare number is seconds."""
    text = str(value).strip()
    if _DURATION.fullmatch(text):
        parts = _DURATION_PART.findall(text)
        return _plain_float(sum(float(number) * _TIME_UNITS[unit] for number, unit in parts))
    if not _NUMBER.fullmatch(text):
        raise ValueError("is not a duration")
    if (number := float(text)) < 0:
        raise ValueError("is negative")
    return number


def _whole(number: Decimal) -> int:
    if number > _MOST:
        raise ValueError("is too large")
    return math.ceil(number)


def _plain_float(number: float) -> float:
    return round(number, 6)


def cpu_text(millis: int) -> str | int:
    """Write CPUs: whole ones as a number, others as 500m."""
    return millis // 1000 if millis % 1000 == 0 else f"{millis}m"


def memory_text(mib: int) -> str:
    """Write memory in the largest unit that keeps it whole."""
    return f"{mib // 1024}Gi" if mib and mib % 1024 == 0 else f"{mib}Mi"


def gpu_text(millis: int) -> int | float:
    """Write GPUs as a number."""
    return millis // 1000 if millis % 1000 == 0 else millis / 1000


def seconds_text(value: float) -> str | float:
    """Write a time: whole seconds in the largest unit that keeps them whole, others as a number of seconds."""
    if value != int(value):
        return value
    whole = int(value)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole and whole % size == 0:
            return f"{whole // size}{unit}"
    return f"{whole}s"
