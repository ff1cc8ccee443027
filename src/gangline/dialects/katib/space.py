"""The search space of an Experiment: feasible spaces and distributions as parameters of a sweep.

A sweep knows evenly and logarithmically spread ranges. Whatever else Katib has (normal distributions, steps on a log
scale) is searched as the share of the distribution that lies below a value, from 0 to 1, and turned into the value
afterwards. Parameters go by their position in the sweep, for Katib's names may be any text.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from statistics import NormalDist

from gangline.dialects.value import Value
from gangline.model.search.parameter import Parameter, Range

_SIGMAS = 6
"""How many standard deviations of a normal distribution lie between min and max."""
_EDGE = 1e-9
"""How near to 0 and 1 a share may be: beyond them normal distributions have no value."""


class ParameterType(StrEnum):
    """What values a parameter has."""

    DOUBLE = "double"
    INT = "int"
    DISCRETE = "discrete"
    CATEGORICAL = "categorical"


class Distribution(StrEnum):
    """How likely the values between min and max are."""

    UNIFORM = "uniform"
    LOG_UNIFORM = "logUniform"
    NORMAL = "normal"
    LOG_NORMAL = "logNormal"

    @property
    def logarithmic(self) -> bool:
        """Whether factors count, and not differences."""
        return self in (Distribution.LOG_UNIFORM, Distribution.LOG_NORMAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One parameter as Katib has it."""

    name: str
    type: ParameterType
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    distribution: Distribution = Distribution.UNIFORM

    def parameter(self, position: int) -> Parameter:
        """Return it as a sweep searches it."""
        name = sweep_name(position)
        if self.values:
            return Parameter(name, values=self.values)
        whole = self.type is ParameterType.INT
        if self._by_share:
            return Parameter(name, range=Range(low=0.0, high=1.0))
        log = self.distribution is Distribution.LOG_UNIFORM
        return Parameter(name, range=Range(low=self.low, high=self.high, step=self.step, log=log, whole=whole))

    def text(self, searched: str) -> str:
        """Return what the trial is given for what the sweep chose."""
        return self._quantile(float(searched)) if self._by_share else searched

    @property
    def _by_share(self) -> bool:
        if self.values or self.distribution is Distribution.UNIFORM:
            return False
        return self.distribution is not Distribution.LOG_UNIFORM or self.step is not None

    def _quantile(self, share: float) -> str:
        log = self.distribution.logarithmic
        low, high = (math.log(self.low), math.log(self.high)) if log else (self.low, self.high)
        if self.distribution is Distribution.LOG_UNIFORM:
            found = low + share * (high - low)
        else:
            spread = (high - low) / _SIGMAS
            curve = NormalDist((low + high) / 2, spread) if spread else None
            found = curve.inv_cdf(min(max(share, _EDGE), 1 - _EDGE)) if curve else low
        value = min(max(math.exp(found) if log else found, self.low), self.high)
        if self.step is not None:
            steps = Decimal(round((value - self.low) / self.step))
            value = min(float(Decimal(repr(self.low)) + steps * Decimal(repr(self.step))), self.high)
        return str(round(value)) if self.type is ParameterType.INT else repr(value)


def sweep_name(position: int) -> str:
    """Return what the sweep calls the parameter at a position."""
    return f"p{position}"


def assigned(space: Sequence[Dimension], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a trial by Katib's names, given what the sweep chose by its own."""
    names = ((each, sweep_name(position)) for position, each in enumerate(space))
    return {each.name: each.text(chosen[name]) for each, name in names if name in chosen}


def read_space(value: Value) -> tuple[Dimension, ...]:
    """Read ``spec.parameters``."""
    found = tuple(_read(each) for each in value.items())
    if not found:
        raise value.wrong("the space is empty", expected="at least one parameter")
    names = [each.name for each in found]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise value.items()[position].wrong(f"'{name}' is there twice", expected="different names", below=".name")
    return found


def _read(value: Value) -> Dimension:
    given = value.fields(("name", "parameterType", "feasibleSpace"))
    for name in ("name", "parameterType", "feasibleSpace"):
        if name not in given:
            raise value.missing(name, "it must be specified")
    name, kind = given["name"].text(), given["parameterType"].choice(ParameterType)
    if not name:
        raise given["name"].wrong("it is empty", expected="a name")
    where = given["feasibleSpace"]
    space = {
        each: one for each, one in where.fields(("min", "max", "step", "list", "distribution")).items() if one.data
    }
    if kind in (ParameterType.DISCRETE, ParameterType.CATEGORICAL):
        return _listed(where, space, name, kind)
    if "list" in space:
        raise space["list"].wrong(f"not supported for parameterType {kind}", expected="min and max")
    for bound in ("min", "max"):
        if bound not in space:
            raise where.missing(bound, f"it must be specified for parameterType {kind}")
    low, high = (_number(space[bound], kind) for bound in ("min", "max"))
    if low > high:
        raise space["min"].wrong("the space is empty: min is above max", expected=f"at most {high:g}")
    distribution = space["distribution"].choice(Distribution) if "distribution" in space else Distribution.UNIFORM
    if distribution.logarithmic and low <= 0:
        raise space["min"].wrong(f"{distribution} begins above 0", expected="a number above 0")
    step = _number(space["step"], kind) if "step" in space else None
    if step is not None and step <= 0:
        raise space["step"].wrong(f"{step:g} is too small", expected="a number above 0")
    return Dimension(name=name, type=kind, low=low, high=high, step=step, distribution=distribution)


def _listed(where: Value, space: Mapping[str, Value], name: str, kind: ParameterType) -> Dimension:
    for wrong in ("min", "max", "step"):
        if wrong in space:
            raise space[wrong].wrong(f"not supported for parameterType {kind}", expected="list")
    values = tuple(each.text_or_number() for each in space["list"].items()) if "list" in space else ()
    if not values:
        raise where.wrong("the space is empty", expected="at least one value", below=".list")
    if len(set(values)) != len(values):
        raise where.wrong("a value is listed twice", expected="different values", below=".list")
    return Dimension(name=name, type=kind, values=values)


def _number(value: Value, kind: ParameterType) -> float:
    expected = "a whole number" if kind is ParameterType.INT else "a number"

    def read(data: str | float) -> float:
        number = float(data)
        if not math.isfinite(number) or abs(number) > 2**53 or (kind is ParameterType.INT and number != int(number)):
            raise ValueError(f"is not {expected}")
        return number

    return value.converted(read, expected)
