"""One value of a document, with typed readers that refuse what does not fit.

``document`` makes the first one; each dialect walks down from there. A reader either returns a value of the
asked type or raises an ``InvalidInputError`` with file, line, field, expectation and the nearest known name.
"""

import difflib
import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from gangline.errors import InvalidInputError

Choice = TypeVar("Choice", bound=StrEnum)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a document came from: its file, the line of each path, and the text of each number."""

    file: str | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def line(self, path: str) -> int | None:
        """Return the line of a path, or of the nearest enclosing value that has one."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value and where it stands; ``path`` is written the way a user would name the field."""

    data: object
    path: str
    source: Source

    def wrong(
        self, problem: str, *, expected: str | None = None, suggestion: str | None = None, below: str = ""
    ) -> InvalidInputError:
        """Build the refusal of this value (or of a path below it)."""
        path = f"{self.path}{below}".removeprefix(".")
        return InvalidInputError(
            problem,
            field=path or None,
            expected=expected,
            suggestion=suggestion,
            file=self.source.file,
            line=self.source.line(path),
        )

    @contextmanager
    def located(self, prefix: str = "") -> Iterator[None]:
        """Give the model's own refusals their file, line and full path: ``prefix`` is what they call this value."""
        try:
            yield
        except InvalidInputError as error:
            if error.line is not None or (self.path and (error.field or "").startswith(self.path)):
                raise  # refused by a reader, which knew its place
            below = f".{error.field}" if error.field else ""
            if prefix and below.startswith(f".{prefix}"):
                below = below.removeprefix(f".{prefix}")
            raise self.wrong(
                error.problem, expected=error.expected, suggestion=error.suggestion, below=below
            ) from error

    def fields(
        self, known: Iterable[str] | None = None, *, optional: bool = False, keep_empty: bool = False
    ) -> dict[str, "Value"]:
        """Return what the mapping holds, by name.

        A name outside ``known`` is refused with the nearest known one. A field that is null counts as not given
        unless ``keep_empty``; the value itself may be null only if ``optional``.
        """
        if self.data is None and optional:
            return {}
        if not isinstance(self.data, Mapping):
            raise self.mismatch("a mapping")
        names = None if known is None else tuple(known)
        found = {}
        for name, data in self.data.items():
            if not isinstance(name, str):
                raise self.wrong(f"the field name {name!r} is not text", expected="a name in quotes")
            if names is not None and name not in names:
                raise self.unknown("field", name, names, below=f".{name}")
            if data is not None or keep_empty:
                found[name] = Value(data=data, path=f"{self.path}.{name}".removeprefix("."), source=self.source)
        return found

    def need(self, name: str, expected: str) -> "Value":
        """Return a field that a mapping cannot do without."""
        found = self.fields()
        if name not in found:
            raise self.missing(name, expected)
        return found[name]

    def items(self) -> list["Value"]:
        """Return the elements of a list."""
        if not isinstance(self.data, list | tuple):
            raise self.mismatch("a list")
        return [
            Value(data=item, path=f"{self.path}[{index}]", source=self.source) for index, item in enumerate(self.data)
        ]

    def text(self) -> str:
        """Return a string."""
        if not isinstance(self.data, str):
            raise self.mismatch("text")
        if "\0" in self.data:
            raise self.wrong("the text holds a NUL character", expected="text that a command line can carry")
        return self.data

    def text_or_number(self) -> str:
        """Return a string; a number becomes the text it was written as, a boolean is refused."""
        if isinstance(self.data, bool):
            raise self.wrong(
                f"{str(self.data).lower()} is a boolean", expected='text; put it in quotes, for example "true"'
            )
        if isinstance(self.data, int | float):
            return self.source.texts.get(self.path) or json.dumps(self.data)
        return self.text()

    def boolean(self) -> bool:
        """Return true or false."""
        if not isinstance(self.data, bool):
            raise self.mismatch("true or false")
        return self.data

    def integer(self, least: int | None = None, most: int | None = None) -> int:
        """Return a whole number within bounds."""
        if isinstance(self.data, bool) or not isinstance(self.data, int):
            raise self.mismatch(_bounds("a whole number", least, most))
        if (least is not None and self.data < least) or (most is not None and self.data > most):
            problem = "too small" if least is not None and self.data < least else "too large"
            raise self.wrong(f"{self.data} is {problem}", expected=_bounds("a whole number", least, most))
        return self.data

    def choice(self, kind: type[Choice]) -> Choice:
        """Return a member of an enumeration by its value."""
        name = self.one_of([member.value for member in kind])
        return kind(name)

    def one_of(self, names: Iterable[str]) -> str:
        """Return a string that must be one of the names; a near miss is answered with the name that was meant."""
        known = tuple(names)
        text = self.text()
        if text not in known:
            raise self.wrong(
                f"'{text}' is not known", expected=f"one of {', '.join(known)}", suggestion=nearest(text, known)
            )
        return text

    def words(self) -> tuple[str, ...]:
        """Return a command: a list of words, or one string that is split as a shell would."""
        if isinstance(self.data, str):
            try:
                return tuple(shlex.split(self.text()))
            except ValueError as error:
                raise self.wrong(f"the command cannot be split: {error}", expected="balanced quotes") from error
        if not isinstance(self.data, list | tuple):
            raise self.mismatch("a list of words, or one string")
        return tuple(item.text_or_number() for item in self.items())

    def strings(self) -> dict[str, str]:
        """Return a mapping of names to text, such as an environment or labels."""
        return {name: value.text_or_number() for name, value in self.fields().items()}

    def converted(self, convert: Callable[[str | int | float], Result], expected: str) -> Result:
        """Return a text or number as ``convert`` reads it; its ``ValueError`` becomes the refusal."""
        data = self.data
        if isinstance(data, bool) or not isinstance(data, str | int | float):
            raise self.mismatch(expected)
        if isinstance(data, float) and not math.isfinite(data):
            raise self.wrong(f"{data} is not a quantity", expected=expected)
        try:
            return convert(data)
        except ValueError as error:
            raise self.wrong(f"'{data}' {error}", expected=expected) from error

    def mismatch(self, expected: str) -> InvalidInputError:
        """Build the refusal of a value of the wrong type."""
        return self.wrong(f"found {_describe(self.data)}", expected=expected)

    def unknown(self, what: str, name: str, known: Iterable[str], *, below: str = "") -> InvalidInputError:
        """Build the refusal of a name that is not among the known ones."""
        names = sorted(known)
        return self.wrong(
            f"unknown {what} '{name}'",
            expected=f"one of {', '.join(names)}" if names else None,
            suggestion=nearest(name, names),
            below=below,
        )

    def missing(self, name: str, expected: str) -> InvalidInputError:
        """Build the refusal of a mapping that lacks a field."""
        return self.wrong("the field is missing", expected=expected, below=f".{name}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name a user most likely meant, if any is near."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    match = difflib.get_close_matches(name.casefold(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[match[0]] if match else None


def _bounds(what: str, least: int | None, most: int | None) -> str:
    if least is not None and most is not None:
        return f"{what} from {least} to {most}"
    if least is not None:
        return f"{what}, {least} or more"
    return what


def _describe(data: object) -> str:
    if data is None:
        return "nothing"
    if isinstance(data, bool):
        return f"the boolean {str(data).lower()}"
    if isinstance(data, int | float):
        return f"the number {data}"
    if isinstance(data, str):
        return f"the text '{data}'"
    return "a mapping" if isinstance(data, Mapping) else "a list"
