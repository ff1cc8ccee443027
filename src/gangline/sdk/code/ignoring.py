"""Patterns of files to leave out, in the notation people know from .gitignore.

A pattern without a slash matches at any depth; one with a slash is anchored at the top; a trailing slash matches
directories alone; ``*`` stops at slashes, ``**`` does not; ``!`` takes a pattern back; the last match decides.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from gangline.errors import InvalidInputError

GIT_FILE = ".gitignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    pattern: re.Pattern[str]
    folders_only: bool
    takes_back: bool


class IgnoreRules:
    """A list of patterns, read once."""

    def __init__(self, lines: Iterable[str], file: str = ".ganglineignore") -> None:
        self._rules = tuple(rule for line in lines if (rule := _rule(line, file)) is not None)

    def ignore(self, path: PurePath, *, folder: bool = False) -> bool:
        """Whether this path, relative to the top, is left out. Nothing below a directory left out is asked about."""
        return self.verdict(path, folder=folder) or False

    def verdict(self, path: PurePath, *, folder: bool = False) -> bool | None:
        """Whether this path is left out, or expressly not; None if no pattern speaks of it."""
        text = path.as_posix()
        for rule in reversed(self._rules):
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(text):
                return not rule.takes_back
        return None


class GitRules:
    """The patterns of every ``.gitignore`` that git would read for a directory: above, in and below it."""

    def __init__(self, directory: Path) -> None:
        self._top = directory.absolute()
        self._known: dict[Path, IgnoreRules] = {}
        above = [self._top, *self._top.parents]
        roots = [place for place in above if (place / ".git").exists()]
        self._above = above[: above.index(roots[0]) + 1] if roots else above[:1]

    def verdict(self, path: PurePath, *, folder: bool = False) -> bool | None:
        """Whether git leaves out this path, relative to the directory; the nearest file that speaks of it decides."""
        whole = self._top / path
        below = [self._top / parent for parent in path.parents if parent != PurePath()]
        for place in (*below, *self._above):
            found = self._rules(place).verdict(PurePath(whole.relative_to(place)), folder=folder)
            if found is not None:
                return found
        return None

    def _rules(self, place: Path) -> IgnoreRules:
        if place not in self._known:
            self._known[place] = IgnoreRules(lines_of(place / GIT_FILE), file=str(place / GIT_FILE))
        return self._known[place]


def lines_of(file: Path) -> list[str]:
    """Read the patterns of a file; none if it is not there."""
    return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if file.is_file() else []


def _rule(line: str, file: str) -> _Rule | None:
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
            f"'{line}' is not a pattern", file=file, expected="the notation of .gitignore"
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
