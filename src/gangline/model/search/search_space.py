"""The search space as a whole: which parameters a trial has, every combination of a grid, and what is refused."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from math import prod

from gangline.errors import InvalidInputError
from gangline.model.search.parameter import Parameter

COMBINATIONS_LIMIT = 100_000
"""Each is a job on record. A grid beyond this is a slip of the pen, not a plan."""

Values = Mapping[str, str]


def exists(parameter: Parameter, values: Values) -> bool:
    """Whether a trial with these values of the parameters above has this one."""
    return all(values.get(name) in allowed for name, allowed in parameter.when)


def combinations(parameters: Sequence[Parameter], above: Values | None = None) -> Iterator[dict[str, str]]:
    """Yield every combination, the last parameter varying fastest, each without the parameters it does not have."""
    values = dict(above or {})
    if not parameters:
        yield values
        return
    first, rest = parameters[0], parameters[1:]
    if not exists(first, values):
        yield from combinations(rest, values)
        return
    for value in first.listed():
        yield from combinations(rest, {**values, first.name: value})


@lru_cache(maxsize=256)
def count_combinations(parameters: tuple[Parameter, ...]) -> int | None:
    """Return how many combinations there are; None if there is no end of them.

    With conditions they are counted one by one, and no further than one beyond the limit.
    """
    counts = [parameter.count for parameter in parameters]
    if None in counts:
        return None
    if not any(parameter.when for parameter in parameters):
        return prod(count or 0 for count in counts)
    return sum(1 for _ in islice(combinations(parameters), COMBINATIONS_LIMIT + 1))


def check_space(parameters: Sequence[Parameter]) -> None:
    """Refuse conditions on parameters that are not above, on values they never have, and such as can never hold."""
    above: dict[str, Parameter] = {}
    for parameter in parameters:
        for name, allowed in parameter.when:
            where = f"spec.parameters.{parameter.name}.when.{name}"
            if name not in above:
                raise InvalidInputError(
                    f"'{name}' is not a parameter above '{parameter.name}'", field=where, expected=_names(above)
                )
            if above[name].range is not None:
                raise InvalidInputError(f"'{name}' is a range", field=where, expected="a parameter with listed values")
            unknown = [value for value in allowed if value not in above[name].values]
            if unknown or not allowed:
                said = f"'{name}' is never '{unknown[0]}'" if unknown else "no value is named"
                raise InvalidInputError(said, field=where, expected=f"some of {', '.join(above[name].values)}")
        _check_reachable(parameter, above)
        above[parameter.name] = parameter


def _check_reachable(parameter: Parameter, above: Mapping[str, Parameter]) -> None:
    """Refuse a parameter whose conditions contradict each other or those of the parameters they name."""
    allowed = dict[str, set[str]]()
    pending = list(parameter.when)
    while pending:
        name, values = pending.pop()
        allowed[name] = allowed.get(name, set(values)) & set(values)
        pending += above[name].when
        if not allowed[name]:
            raise InvalidInputError(
                f"the conditions contradict each other: no value of '{name}' satisfies all of them",
                field=f"spec.parameters.{parameter.name}.when",
                expected="conditions that can hold together",
            )


def check_values(parameters: Sequence[Parameter], values: Values, *, field: str = "") -> None:
    """Refuse values of a trial that the space does not have; ``field`` is what stands before their names."""
    taken = dict[str, str]()
    for parameter in parameters:
        if exists(parameter, taken):
            value = completed((parameter,), values, above=taken).get(parameter.name)
            if value is None:
                raise InvalidInputError(
                    "the value is missing", field=f"{field}{parameter.name}", expected=_described(parameter)
                )
            if not parameter.holds(value):
                raise InvalidInputError(
                    f"'{value}' is outside the space", field=f"{field}{parameter.name}", expected=_described(parameter)
                )
            taken[parameter.name] = value
    for name in values:
        if name not in taken:
            known = {parameter.name: parameter for parameter in parameters}
            said = "does not exist beside the other values" if name in known else "is not a parameter"
            raise InvalidInputError(f"'{name}' {said}", field=f"{field}{name}", expected=_names(taken))


def completed(parameters: Sequence[Parameter], values: Values, *, above: Values | None = None) -> dict[str, str]:
    """Return values in the order of the space, with its constants."""
    taken = dict(above or {})
    for parameter in parameters:
        constant = parameter.values[0] if len(parameter.values) == 1 else None
        value = values.get(parameter.name, constant)
        if value is not None and exists(parameter, taken):
            taken[parameter.name] = value
    return taken


def _described(parameter: Parameter) -> str:
    if parameter.range is None:
        return f"one of {', '.join(parameter.values)}"
    words = "a whole number" if parameter.range.whole else "a number"
    steps = f" in steps of {parameter.range.step:g}" if parameter.range.step is not None else ""
    return f"{words} from {parameter.range.low:g} to {parameter.range.high:g}{steps}"


def _names(names: Mapping[str, object]) -> str:
    return f"one of {', '.join(names)}" if names else "none: there is no parameter above"
