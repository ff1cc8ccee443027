"""``-o jsonpath=`` and ``-o custom-columns=`` in kubectl's notation, over what ``-o json`` prints. Pure.

Known are fields (``.metadata.name``, ``['a.b']``), items (``[0]``, ``[-1]``, ``[*]``), conditions
(``[?(@.phase=="FAILED")]``), texts (``{"\\n"}``) and ``{range ...}...{end}``.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gangline.errors import InvalidInputError

JSONPATH, COLUMNS = "jsonpath=", "custom-columns="

_STEP = re.compile(
    r"""\.?\[\?\(@(?P<condition>[^=!<>)\s]+)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>"[^"]*"|'[^']*'|[^)]+)\)\]
      | \.?\[(?P<quote>['"])(?P<quoted>.+?)(?P=quote)\] | \.?\[(?P<index>-?\d+|\*)\]
      | \.(?P<star>\*) | \.(?P<field>(?:\\.|[^.\[\]{}\s\\])+)""",
    re.VERBOSE,
)
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PARTS = re.compile(r"\{((?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^}])*)\}")
_FORM = "a path such as {.metadata.name} or {.items[*].status.phase}"


def found_at(value: object, path: str) -> list[object]:
    """Return everything at a path, such as ``.spec.roles.worker.replicas``; nothing if there is no such field."""
    found, place = [value], 0
    path = path.strip().removeprefix("$").removeprefix("@")
    if path and path[0] not in ".[":
        path = f".{path}"
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            raise InvalidInputError(f"'{path[place:]}' is not understood", field="-o", expected=_FORM)
        found = [inner for each in found for inner in _inside(each, step)]
        place = step.end()
    return found


def text_of(template: str, value: object) -> str:
    """Return what a template of ``-o jsonpath=`` makes of a value."""
    parts: list[tuple[bool, str]] = []
    place = 0
    if "{" not in template:
        template = f"{{{template}}}"
    for match in _PARTS.finditer(template):
        parts += [(False, template[place : match.start()]), (True, match.group(1).strip())]
        place = match.end()
    return "".join(_written([*parts, (False, template[place:])], value))


def columns_of(text: str) -> list[tuple[str, str]]:
    """Read ``NAME:.metadata.name,PHASE:.status.phase``."""
    columns = [each.partition(":") for each in text.split(",")]
    if not all(name and path for name, _, path in columns):
        raise InvalidInputError(
            f"'{text}' names no columns", field="-o", expected="custom-columns=NAME:.metadata.name,PHASE:.status.phase"
        )
    return [(name, path) for name, _, path in columns]


def cells_of(columns: Sequence[tuple[str, str]], value: object) -> tuple[str, ...]:
    """Return a value as a row of such columns."""
    return tuple(",".join(map(_text, found_at(value, path.strip("{}")))) or "<none>" for _, path in columns)


def _inside(value: object, step: re.Match[str]) -> Iterator[object]:
    """Return what one step of a path leads to."""
    name = step["quoted"] or (re.sub(r"\\(.)", r"\1", step["field"]) if step["field"] else None)
    if name is not None:
        if isinstance(value, dict) and name in value:
            yield value[name]
        return
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if step["condition"]:
        yield from (each for each in inner if _holds(each, step))
    elif step["star"] or step["index"] == "*":
        yield from inner
    elif isinstance(value, list) and -len(value) <= int(step["index"]) < len(value):
        yield value[int(step["index"])]


def _holds(value: object, step: re.Match[str]) -> bool:
    wanted = step["value"].strip()
    want = wanted[1:-1] if wanted[0] in "\"'" else _number(wanted)
    for found in found_at(value, step["condition"]):
        try:
            if _OPERATORS[step["operator"]](found, want):
                return True
        except TypeError:
            continue  # a number is neither more nor less than a text
    return False


def _number(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _written(parts: Sequence[tuple[bool, str]], value: object) -> Iterator[str]:
    place = 0
    while place < len(parts):
        inside, text = parts[place]
        place += 1
        if not inside:
            yield text
        elif text.startswith("range "):
            end = _end_of(parts, place)
            for each in found_at(value, text.removeprefix("range ")):
                yield from _written(parts[place:end], each)
            place = end + 1
        elif text[:1] in ("'", '"'):
            yield str(json.loads(f'"{text[1:-1]}"'))
        else:
            yield " ".join(map(_text, found_at(value, text)))


def _end_of(parts: Sequence[tuple[bool, str]], place: int) -> int:
    depth = 1
    for number in range(place, len(parts)):
        inside, text = parts[number]
        depth += inside and text.startswith("range ")
        depth -= inside and text == "end"
        if not depth:
            return number
    raise InvalidInputError("a range has no end", field="-o", expected="{range .items[*]}...{end}")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
