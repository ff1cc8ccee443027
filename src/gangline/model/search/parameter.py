"""What a sweep may vary: choices, ranges of numbers, constants, and parameters that exist only beside others."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal

from gangline.errors import InvalidInputError

_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Numbers from ``low`` to ``high``, both included where ``step`` reaches them.

    ``whole`` numbers are a step of 1 apart unless another is given. On a ``log`` scale every factor is as likely.
    """

    low: float
    high: float
    step: float | None = None
    log: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        numbers = {"min": self.low, "max": self.high} | ({} if self.step is None else {"step": self.step})
        for name, number in numbers.items():
            if not math.isfinite(number) or abs(number) > 2**53:
                raise InvalidInputError(f"{number} cannot be searched", field=name, expected="a number below 2^53")
            if self.whole and number != int(number):
                raise InvalidInputError(f"{number} is not a whole number", field=name, expected="a whole number")
        if self.low > self.high:
            raise InvalidInputError("the space is empty: min is above max", field="min", expected="at most max")
        if self.step is not None and self.step <= 0:
            raise InvalidInputError(f"{self.step:g} is too small", field="step", expected="a number above 0")
        if self.log and self.low <= 0:
            raise InvalidInputError("a log scale begins above 0", field="min", expected="a number above 0")
        if self.log and self.step is not None:
            raise InvalidInputError("a log scale has no steps", field="step", expected="either log or step")

    @property
    def spacing(self) -> float | None:
        """How far apart neighbouring values are; None if there is a value between any two."""
        return self.step if self.step is not None else 1.0 if self.whole else None

    @property
    def count(self) -> int | None:
        """How many values there are; None if there is no end of them."""
        if self.spacing is None:
            return 1 if self.low == self.high else None
        return int((Decimal(repr(self.high)) - Decimal(repr(self.low))) / Decimal(repr(self.spacing))) + 1

    def text(self, value: float) -> str:
        """Write a value so that reading it gives the same number."""
        return str(round(value)) if self.whole else repr(float(value))

    def nth(self, index: int) -> str:
        """Write the value that many steps above the least; sums of decimals are exact, as a person would write them."""
        spacing = Decimal(repr(self.spacing or 0.0))
        return self.text(float(Decimal(repr(self.low)) + index * spacing))

    def at(self, fraction: float) -> str:
        """Write the value at a fraction of the way, 0 (included) to 1 (not included), on the range's own scale."""
        if self.log:
            low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
            found = math.exp(math.log(low) + fraction * (math.log(high) - math.log(low)))
            return self.text(min(max(found, self.low), self.high))
        if self.count is not None:
            return self.nth(min(int(fraction * self.count), self.count - 1))
        return self.text(min(self.low + fraction * (self.high - self.low), self.high))

    def nearest(self, number: float) -> str:
        """Write the value that is nearest to a number."""
        number = min(max(number, self.low), self.high)
        if self.spacing is None:
            return self.text(number)
        return self.nth(min(round((number - self.low) / self.spacing), (self.count or 1) - 1))

    def holds(self, text: str) -> bool:
        """Whether a written number is one of the values."""
        try:
            number = float(text)
        except ValueError:
            return False
        if not self.low <= number <= self.high:
            return False
        if self.spacing is None:
            return True
        steps = (number - self.low) / self.spacing
        rounding = max(abs(number), abs(self.low)) / self.spacing * 2**-50  # of numbers that are large for their steps
        return abs(steps - round(steps)) < max(1e-8, rounding)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One dimension of the search space: either values to choose from, as the command wants them, or a range.

    One value is a constant. ``when`` names parameters above this one with some of their values: it exists only in
    trials in which each of them has one of those.
    """

    name: str
    values: tuple[str, ...] = ()
    range: Range | None = None
    when: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        where = f"parameters.{self.name}"
        if not _PARAMETER.fullmatch(self.name):
            raise InvalidInputError("not a parameter name", field=where, expected="letters, digits, '_' and '-'")
        if not self.values and self.range is None:
            raise InvalidInputError("no values to try", field=where, expected="a list of at least one value")
        if self.values and self.range is not None:
            raise InvalidInputError("both values and a range", field=where, expected="one of them")
        if len(set(self.values)) != len(self.values):
            raise InvalidInputError("a value is listed twice", field=where, expected="different values")
        object.__setattr__(self, "when", tuple(sorted(self.when)))  # their order means nothing, and keepers change it

    @property
    def variable(self) -> str:
        """The environment variable in which a trial finds its value."""
        return f"TRIAL_{self.name.upper().replace('-', '_')}"

    @property
    def count(self) -> int | None:
        """How many values it has; None if there is no end of them."""
        return len(self.values) if self.range is None else self.range.count

    def listed(self) -> tuple[str, ...]:
        """Return all values, of which there must be an end."""
        if self.range is None:
            return self.values
        return tuple(self.range.nth(index) for index in range(self.range.count or 0))

    def at(self, fraction: float) -> str:
        """Return the value at a fraction of the way through all of them."""
        if self.range is not None:
            return self.range.at(fraction)
        return self.values[min(int(fraction * len(self.values)), len(self.values) - 1)]

    def place(self, text: str) -> float:
        """Return where a value lies among all of them, from 0 to 1, on the range's own scale."""
        if self.range is None:
            return self.values.index(text) / max(1, len(self.values) - 1) if text in self.values else 0.0
        low, high, number = self.range.low, self.range.high, float(text)
        if self.range.log:
            low, high, number = math.log(low), math.log(high), math.log(number)
        return (number - low) / (high - low) if high > low else 0.0

    def holds(self, text: str) -> bool:
        """Whether this is one of its values."""
        return text in self.values if self.range is None else self.range.holds(text)
