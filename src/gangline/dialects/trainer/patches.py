"""``runtimePatches``: parts of a runtime put into another, lists of named things merged by their names. Pure."""

from collections.abc import Mapping
from typing import Any

_KEYS = ("name", "mountPath", "containerPort", "key")
"""What tells the items of a list apart, the first that all of them have."""


def patched(target: Any, patch: Any) -> Any:
    """Merge a patch: mappings by their fields, lists of named things by name, everything else replaced."""
    if isinstance(target, Mapping) and isinstance(patch, Mapping):
        found = dict(target)
        for name, value in patch.items():
            found[name] = patched(found[name], value) if name in found else value
        return found
    if isinstance(target, list) and isinstance(patch, list):
        return _merged_lists(target, patch)
    return patch


def _merged_lists(target: list[Any], patch: list[Any]) -> list[Any]:
    every = [*target, *patch]
    if not all(isinstance(each, Mapping) for each in every):
        return patch
    key = next((key for key in _KEYS if all(key in each for each in every)), None)
    if key is None:
        return every
    found = {each[key]: each for each in target}
    for each in patch:
        found[each[key]] = patched(found.get(each[key], {}), each)
    return list(found.values())
