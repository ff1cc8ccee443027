"""What flows between steps: parameters, which are JSON values of a declared type, and artefacts."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = Any
"""None, a truth, a number, a text, a list or a mapping of these."""


class ParameterType(StrEnum):
    """The types a parameter may have, as compiled pipelines spell them."""

    INTEGER = "NUMBER_INTEGER"
    DOUBLE = "NUMBER_DOUBLE"
    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    LIST = "LIST"
    STRUCT = "STRUCT"
    FINAL_STATUS = "TASK_FINAL_STATUS"
    CONFIG = "TASK_CONFIG"


class MisfitError(ValueError):
    """A value is not of the type it should have; the sentence says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Something that a step left behind: where it is, what it is, and what is known of it."""

    name: str
    uri: str
    type: str = "system.Artifact"
    version: str = "0.0.1"
    metadata: Mapping[str, Json] = field(default_factory=dict)
    digest: str = ""
    """Of the content, where the step that made it could say."""


def fit(value: Json, kind: ParameterType) -> Json:
    """Return a value as its type has it: 3.0 is the integer 3, and text is read where a number or a list is wanted."""
    return _FITS[kind](value)


def _integer(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return _integer(_number(value, "a whole number"))
    if isinstance(value, bool) or not isinstance(value, int):
        raise _misfit(value, "a whole number")
    return value


def _double(value: Json) -> Json:
    if isinstance(value, str):
        return _double(_number(value, "a number"))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _misfit(value, "a number")
    return float(value)


def _number(text: str, expected: str) -> Json:
    """Read a number as programs write them into files: ``05``, ``.5`` and a line break behind it are no mistake."""
    word = text.strip()
    if "_" in word:
        raise _misfit(text, expected)
    for form in (int, float):
        try:
            return form(word)
        except ValueError:
            continue
    raise _misfit(text, expected)


_TRUTHS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
"""How programs write truths, as kfp's launcher reads them."""


def _boolean(value: Json) -> Json:
    if isinstance(value, str) and (word := value.strip().lower()) in _TRUTHS:
        return _TRUTHS[word]
    if not isinstance(value, bool):
        raise _misfit(value, "true or false")
    return value


def _list(value: Json) -> Json:
    found = _read(value, "a list") if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise _misfit(value, "a list")
    return list(found)


def _struct(value: Json) -> Json:
    found = _read(value, "a mapping") if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise _misfit(value, "a mapping")
    return dict(found)


def text_of(value: Json) -> str:
    """Write a value as text: text as it is, everything else as JSON, so that 3 is "3" and 3.0 is "3.0"."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def compiled_text(value: Json) -> str:
    """Write a value as kfp's launcher does in commands: it cannot tell 3.0 from 3, and writes both without a point."""
    return text_of(int(value) if isinstance(value, float) and value.is_integer() else value)


def whole(value: Json) -> Json:
    """Return a value whose whole numbers are integers: compiled pipelines write every number with a point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: whole(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [whole(item) for item in value]
    return value


def select(value: Json, keys: tuple[str, ...]) -> Json:
    """Return what lies in a mapping under these keys; text along the way is read as JSON."""
    for key in keys:
        inside = _read(value, "a mapping") if isinstance(value, str) else value
        if not isinstance(inside, Mapping) or key not in inside:
            raise MisfitError(f"there is no '{key}' in {_shown(value)}")
        value = inside[key]
    return value


def _read(text: object, expected: str) -> Json:
    try:
        return json.loads(str(text))
    except ValueError:
        raise _misfit(text, expected) from None


def _misfit(value: Json, expected: str) -> MisfitError:
    return MisfitError(f"{_shown(value)} is not {expected}")


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


_FITS: Mapping[ParameterType, Callable[[Json], Json]] = {
    ParameterType.INTEGER: _integer,
    ParameterType.DOUBLE: _double,
    ParameterType.STRING: text_of,
    ParameterType.BOOLEAN: _boolean,
    ParameterType.LIST: _list,
    ParameterType.STRUCT: _struct,
    ParameterType.FINAL_STATUS: _struct,
    ParameterType.CONFIG: _struct,
}
