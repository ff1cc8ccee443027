"""Decoded JSON: reading parts of documents that somebody else wrote, and RFC 7386 merge patches."""

import json
from collections.abc import Mapping

from gangline.errors import InvalidInputError

Plain = dict[str, object]
"""One JSON object, decoded."""


def part(document: Mapping[str, object], *path: str) -> Plain:
    """Return the object at a path; an empty one if there is none or if something else stands there."""
    found: object = document
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def text(document: Mapping[str, object], *path: str) -> str | None:
    """Return the text at a path, if there is one."""
    found = part(document, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) and found else None


def texts(document: Mapping[str, object], *path: str) -> dict[str, str]:
    """Return a mapping of texts, such as labels."""
    return {name: str(value) for name, value in part(document, *path).items()}


def items(document: Mapping[str, object], *path: str) -> list[Plain]:
    """Return the objects of the list at a path."""
    found = part(document, *path[:-1]).get(path[-1])
    return [dict(item) for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def given(document: Mapping[str, object]) -> Plain:
    """Leave out what is None."""
    return {name: value for name, value in document.items() if value is not None}


def decode_object(raw: bytes) -> Plain:
    """Read a body; anything but one JSON object is refused."""
    try:
        found = json.loads(raw, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InvalidInputError(f"the body is not JSON: {error}", field="body") from error
    except RecursionError as error:
        raise InvalidInputError("the body is nested too deeply", field="body") from error
    if not isinstance(found, dict):
        raise InvalidInputError("the body is not an object", field="body", expected="a JSON object (or a merge patch)")
    return found


def _refuse_constant(word: str) -> object:
    """Refuse NaN and the infinities, which Python reads and no other client would."""
    raise ValueError(f"{word} is not a number")


def merged(target: object, patch: object) -> object:
    """Apply a merge patch: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
