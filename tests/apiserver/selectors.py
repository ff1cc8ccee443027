"""Label and field selectors."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

Test = Callable[[Mapping[str, Any]], bool]

_TERM = re.compile(r"\s*([^,()]+(?:\([^)]*\))?)\s*(?:,|$)")
_SET = re.compile(r"(?P<key>\S+)\s+(?P<verb>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUAL = re.compile(r"(?P<key>[^=!]+?)\s*(?P<verb>!=|==|=)\s*(?P<value>.*)")


@cache
def selector(labels: str, fields: str) -> Test:
    """What tells the objects that are asked for from others."""
    by_label = [_label_test(term.strip()) for term in _TERM.findall(labels)]
    by_field = [_field_test(term.strip()) for term in _TERM.findall(fields)]

    def selects(body: Mapping[str, Any]) -> bool:
        carried = body["metadata"].get("labels") or {}
        return all(test(carried) for test in by_label) and all(test(body) for test in by_field)

    return selects


def _label_test(term: str) -> Test:
    if match := _SET.fullmatch(term):
        values = {value.strip() for value in match["values"].split(",")}
        return lambda labels: (labels.get(match["key"]) in values) is (match["verb"] == "in")
    if match := _EQUAL.fullmatch(term):
        key, value, wanted = match["key"], match["value"], match["verb"] != "!="
        return lambda labels: (labels.get(key) == value) is wanted
    if term.startswith("!"):
        return lambda labels: term[1:] not in labels
    return lambda labels: term in labels


def _field_test(term: str) -> Test:
    match = _EQUAL.fullmatch(term)
    assert match, term
    names, value, wanted = match["key"].split("."), match["value"], match["verb"] != "!="

    def test(body: Mapping[str, Any]) -> bool:
        found: Any = body
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
        return ((found or "") == value) is wanted

    return test
