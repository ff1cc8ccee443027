"""Label and field selectors: which objects a list is to hold."""

import re
from collections.abc import Callable, Collection, Mapping

from gangline.errors import InvalidInputError

Labels = Mapping[str, str]
Selector = Callable[[Labels], bool]
"""Says whether an object with these labels (or fields) is meant."""

_SET = re.compile(r"(?P<name>[^\s!=<>,()]+)\s+(?P<relation>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUAL = re.compile(r"(?P<name>[^\s!=<>,()]+)\s*(?P<relation>==|=|!=)\s*(?P<value>[^\s!=,()]*)")
_PRESENT = re.compile(r"(?P<not>!?)\s*(?P<name>[^\s!=<>,()]+)")
_COMMAS = re.compile(r",(?![^(]*\))")


def parse_labels(text: str | None) -> tuple[Selector, ...]:
    """Read a label selector, ``a=b,c!=d,e in (f, g),!h``; every requirement must hold."""
    return tuple(_requirement(_understood(word, "labelSelector")) for word in _words(text))


def parse_fields(text: str | None, known: Collection[str]) -> tuple[Selector, ...]:
    """Read a field selector; a field that is not ``known`` is refused: no answer would be the right one."""
    selectors = []
    for word in _words(text):
        found = _understood(word, "fieldSelector")
        if found["name"] not in known:
            raise InvalidInputError(
                f"'{found['name']}' cannot be selected by",
                field="fieldSelector",
                expected=f"one of {', '.join(sorted(known))}",
            )
        selectors.append(_requirement(found))
    return tuple(selectors)


def matches(selectors: tuple[Selector, ...], labels: Labels) -> bool:
    """Whether all requirements hold."""
    return all(selector(labels) for selector in selectors)


def equal_value(text: str | None, name: str) -> str | None:
    """Return the value that a selector requires of one label, if it does so by equality."""
    for word in _COMMAS.split(text or ""):
        found = _EQUAL.fullmatch(word.strip())
        if found and found["name"] == name and found["relation"] != "!=":
            return found["value"]
    return None


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in _COMMAS.split(text or "") if word.strip()]


def _understood(word: str, parameter: str) -> re.Match[str]:
    for form in (_SET, _EQUAL, _PRESENT):
        if found := form.fullmatch(word):
            return found
    raise InvalidInputError(f"'{word}' is not understood", field=parameter, expected="for example name=value")


def _requirement(found: re.Match[str]) -> Selector:
    name = found["name"]
    if found.re is _SET:
        values, wanted = {value.strip() for value in found["values"].split(",")}, found["relation"] == "in"
        return lambda labels: (labels.get(name) in values) == wanted
    if found.re is _EQUAL:
        value, same = found["value"], found["relation"] != "!="
        return lambda labels: (labels.get(name) == value) == same
    present = not found["not"]
    return lambda labels: (name in labels) == present
