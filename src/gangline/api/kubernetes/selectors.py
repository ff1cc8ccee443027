"""Label and field selectors: which objects a list is to hold."""

import re
from collections.abc import Callable, Mapping

from gangline.errors import InvalidInputError

Labels = Mapping[str, str]
Selector = Callable[[Labels], bool]
"""Says whether an object with these labels (or fields) is meant."""

_SET = re.compile(r"([^\s!=,()]+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUAL = re.compile(r"([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)")
_PRESENT = re.compile(r"(!?)\s*([^\s!=,()]+)")
_COMMAS = re.compile(r",(?![^(]*\))")


def parse_selector(text: str | None, parameter: str) -> tuple[Selector, ...]:
    """Read ``a=b,c!=d,e in (f, g),!h``; every requirement must hold."""
    words = [word.strip() for word in _COMMAS.split(text or "") if word.strip()]
    return tuple(_requirement(word, parameter) for word in words)


def matches(selectors: tuple[Selector, ...], labels: Labels) -> bool:
    """Whether all requirements hold."""
    return all(selector(labels) for selector in selectors)


def equal_value(text: str | None, name: str) -> str | None:
    """Return the value that a selector requires of one label, if it does so by equality."""
    for word in _COMMAS.split(text or ""):
        found = _EQUAL.fullmatch(word.strip())
        if found and found[1] == name and found[2] != "!=":
            return found[3]
    return None


def _requirement(word: str, parameter: str) -> Selector:
    if found := _SET.fullmatch(word):
        name, values = found[1], {value.strip() for value in found[3].split(",")}
        wanted = found[2] == "in"
        return lambda labels: (labels.get(name) in values) == wanted
    if found := _EQUAL.fullmatch(word):
        name, value, same = found[1], found[3], found[2] != "!="
        return lambda labels: (labels.get(name) == value) == same
    if found := _PRESENT.fullmatch(word):
        name, present = found[2], not found[1]
        return lambda labels: (name in labels) == present
    raise InvalidInputError(f"'{word}' is not understood", field=parameter, expected="for example name=value")
