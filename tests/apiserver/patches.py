"""What a write makes of an object: merge patches, and who owns which field under server-side apply. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

Body = dict[str, Any]
Path = tuple[str, ...]
Owners = dict[Path, frozenset[str]]

_MISSING = object()
_UNOWNED = {
    ("apiVersion",),
    ("kind",),
    *(("metadata", name) for name in ("name", "namespace", "uid", "resourceVersion", "generation")),
    *(("metadata", name) for name in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")),
}


def merged(value: Any, patch: Any) -> Any:
    """A JSON merge patch: None removes a field, lists are replaced whole."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(value) if isinstance(value, Mapping) else {}
    for name, inner in patch.items():
        if inner is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), inner)
    return result


def leaves(body: Mapping[str, Any], path: Path = ()) -> dict[Path, Any]:
    """Every field that somebody can own; a list is one of them."""
    found: dict[Path, Any] = {}
    for name, value in body.items():
        here = (*path, name)
        if isinstance(value, Mapping) and value:
            found |= leaves(value, here)
        elif here not in _UNOWNED:
            found[here] = value
    return found


def owners_after(owners: Owners, before: Mapping[str, Any], after: Mapping[str, Any], manager: str) -> Owners:
    """Who owns what after a plain write: its author owns what it changed."""
    old = leaves(before)
    return {
        path: owners.get(path, frozenset()) if old.get(path, _MISSING) == value else frozenset({manager})
        for path, value in leaves(after).items()
    }


def conflicts(owners: Owners, current: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> list[Path]:
    """The fields that an apply would take from somebody else."""
    now = leaves(current)
    return [
        path
        for path, value in leaves(body).items()
        if now.get(path, _MISSING) not in (_MISSING, value) and owners.get(path, frozenset()) - {manager}
    ]


def applied(owners: Owners, current: Body, body: Body, manager: str) -> tuple[Body, Owners]:
    """An object after a server-side apply: what its manager no longer names goes, unless others want it."""
    wanted, now = leaves(body), leaves(current)
    given_up = [path for path, who in owners.items() if manager in who and path not in wanted]
    result = merged(_without(current, [path for path in given_up if owners[path] == {manager}]), body)
    owned = {path: who - {manager} if path in given_up else who for path, who in owners.items()}
    for path, value in wanted.items():
        shared = owned.get(path, frozenset()) if now.get(path, _MISSING) == value else frozenset()
        owned[path] = shared | {manager}
    return result, {path: who for path, who in owned.items() if path in leaves(result)}


def _without(body: Any, paths: Iterable[Path]) -> Any:
    if not isinstance(body, Mapping):
        return body
    paths = list(paths)
    gone = {path[0] for path in paths if len(path) == 1}
    result = {}
    for name, value in body.items():
        if name in gone:
            continue
        below = [path[1:] for path in paths if path[0] == name]
        inner = _without(value, below) if below else value
        if inner != {} or value == {}:
            result[name] = inner
    return result
