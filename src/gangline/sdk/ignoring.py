"""Patterns of files to leave out, in the notation people know from .gitignore.

A pattern without a slash matches at any depth; one with a slash is anchored at the top; a trailing slash matches
directories alone; ``*`` stops at slashes, ``**`` does not; ``!`` takes a pattern back; the last match decides.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from gangline.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    pattern: re.Pattern[str]
    folders_only: bool
    takes_back: bool


class IgnoreRules:
    """A list of patterns, read once."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = tuple(rule for line in lines if (rule := _rule(line)) is not None)

    def ignore(self, path: PurePath, *, folder: bool = False) -> bool:
        """Whether this path, relative to the top, is left out. Nothing below a directory left out is asked about."""
        text = path.as_posix()
        for rule in reversed(self._rules):
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(text):
                return not rule.takes_back
        return False


def _rule(line: str) -> _Rule | None:
    text = line.rstrip()
    if not text or text.startswith("#"):
        return None
    takes_back = text.startswith("!")
    text = text[1:] if takes_back else text.removeprefix("\\")
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    expression = _expression(text.lstrip("/"))
    try:
        pattern = re.compile(expression if anchored else f"(?:.*/)?{expression}")
    except re.error as error:
        raise InvalidInputError(
            f"'{line}' is no pattern", file=".ganglineignore", expected="the notation of .gitignore"
        ) from error
    return _Rule(pattern=pattern, folders_only=folders_only, takes_back=takes_back)


_TOKENS = re.compile(
    r"(?P<deep>(?:^|(?<=/))\*\*/)|(?P<rest>/\*\*$)|(?P<star>\*+)|(?P<one>\?)|(?P<set>\[[^]]+\])|(?P<text>.)"
)
_MEANINGS = {"deep": "(?:.*/)?", "rest": "/.*", "star": "[^/]*", "one": "[^/]"}


def _expression(pattern: str) -> str:
    parts = []
    for match in _TOKENS.finditer(pattern):
        kind, text = match.lastgroup or "text", match.group()
        if kind == "set":
            parts.append(f"[^{text[2:-1]}]" if text[1] in "!^" else text)
        else:
            parts.append(_MEANINGS.get(kind) or re.escape(text))
    return "".join(parts)
