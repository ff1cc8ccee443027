"""``successCondition`` and ``failureCondition``: whether a GJSON path finds anything in an object.

Of GJSON it is what conditions need: names, indexes, ``#`` for every element, queries ``#(name=="text")`` (the first
that matches) and ``#(...)#`` (all that do), with ``.`` and ``|`` between them.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_QUERY = re.compile(
    r'#\((?P<path>[^=!<>%]*?)\s*(?:(?P<relation>==|!=|<=|>=|<|>|%|!%|=)\s*(?P<value>"[^"]*"|[^)]*))?\)(?P<all>#?)'
)
_NAME = re.compile(r"[^.|]+")
_RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING = object()


class PathError(ValueError):
    """The text is not a path that is understood here."""


def holds(path: str, document: Mapping[str, Any]) -> bool:
    """Whether the path finds something: a list must not be empty, and a flag must be true."""
    found = _find(document, parse(path))
    return found is not _MISSING and found not in (None, False, [], "")


def parse(path: str) -> list[str]:
    """Split a path into its parts; raises PathError."""
    parts, rest = list[str](), path.strip()
    if not rest:
        raise PathError("it is empty")
    while rest:
        match = _QUERY.match(rest) or _NAME.match(rest)
        if match is None or (rest.startswith("#(") and match.re is _NAME):
            raise PathError(f"'{rest}' is not understood")
        if match.re is _QUERY and (match["relation"] or "") in ("%", "!%"):
            raise PathError("patterns (%) are not supported")
        parts.append(match[0])
        rest = rest[match.end() :]
        if rest[:1] in (".", "|") and len(rest) > 1:
            rest = rest[1:]
        elif rest:
            raise PathError(f"'{rest}' is not understood")
    return parts


def _find(found: Any, parts: Sequence[str]) -> Any:
    for position, part in enumerate(parts):
        if query := _QUERY.fullmatch(part):
            found = _queried(found, query)
        elif part == "#":
            if not isinstance(found, list):
                return _MISSING
            if position == len(parts) - 1:
                return len(found)
            below = [_find(each, parts[position + 1 :]) for each in found]
            return [each for each in below if each is not _MISSING]
        elif isinstance(found, Mapping):
            found = found.get(part, _MISSING)
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return _MISSING
        if found is _MISSING:
            return _MISSING
    return found


def _queried(found: Any, query: re.Match[str]) -> Any:
    if not isinstance(found, list):
        return _MISSING
    matching = [each for each in found if _matches(each, query)]
    if query["all"]:
        return matching
    return matching[0] if matching else _MISSING


def _matches(item: Any, query: re.Match[str]) -> bool:
    path = query["path"].strip()
    found = _find(item, parse(path)) if path else item
    if query["relation"] is None:
        return found is not _MISSING
    if found is _MISSING:
        return False
    wanted = _literal(query["value"].strip())
    if isinstance(wanted, bool) != isinstance(found, bool) or isinstance(wanted, str) != isinstance(found, str):
        return query["relation"] == "!="
    return _RELATIONS[query["relation"]](found, wanted)


def _literal(text: str) -> Any:
    if text.startswith('"'):
        return text.strip('"')
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text
