"""Reading query parameters: each is known, typed and given once, or refused by name."""

import difflib
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

from aiohttp import web

from gangline.api.operation import operation_of
from gangline.errors import InvalidInputError
from gangline.model import Phase, Timestamp

T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)

DRY_RUN = "dryRun"
"""What every change knows, whatever else is in its row."""

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class Parameters:
    """The query of one request. Only the names in the row of its operation may occur in it."""

    def __init__(self, request: web.Request) -> None:
        self._query = request.query
        operation = operation_of(request)
        known = () if operation is None else tuple(operation.query)
        if operation is not None and operation.changes:
            known = (*known, DRY_RUN)
        for name in self._query:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, n=1)
                raise InvalidInputError(
                    "unknown query parameter",
                    field=name,
                    expected=f"one of {', '.join(known)}" if known else "none",
                    suggestion=nearest[0] if nearest else None,
                )

    def text(self, name: str) -> str | None:
        """Return a parameter as it is."""
        return self._query.get(name)

    def texts(self, name: str) -> list[str]:
        """Return a parameter that may be repeated."""
        return self._query.getall(name, [])

    def number(self, name: str, *, least: int = 0, most: int | None = None) -> int | None:
        """Return a whole number within bounds."""

        def read(text: str) -> int:
            value = int(text)
            if value < least or (most is not None and value > most):
                raise ValueError(text)
            return value

        expected = f"a whole number of {least} or more" if most is None else f"a whole number from {least} to {most}"
        return self.parsed(name, read, expected)

    def truth(self, name: str) -> bool:
        """Return whether a switch is on; it is off unless given."""
        return self.parsed(name, lambda text: _TRUTH[text.lower()], "true or false") or False

    def time(self, name: str) -> Timestamp | None:
        """Return a time, given as ISO 8601 (UTC unless it says otherwise)."""
        return self.parsed(name, _timestamp, "a time such as 2030-01-31T12:00:00Z")

    def phases(self, name: str) -> frozenset[Phase] | None:
        """Return phases, repeated or separated by commas."""
        words = [word for text in self.texts(name) for word in text.split(",")]
        return frozenset(_phase(name, word) for word in words) if words else None

    def choice(self, name: str, word: str, choices: type[Choice]) -> Choice:
        """Return one of few words."""
        try:
            return choices(word)
        except ValueError as error:
            raise InvalidInputError(
                f"'{word}' is not understood", field=name, expected=f"one of {', '.join(choices)}"
            ) from error

    def parsed(self, name: str, read: Callable[[str], T], expected: str) -> T | None:
        """Return what ``read`` makes of a parameter; its ValueError is a refusal that says what is expected."""
        text = self._query.get(name)
        if text is None:
            return None
        try:
            return read(text)
        except (ValueError, KeyError) as error:
            raise InvalidInputError(f"'{text}' is not understood", field=name, expected=expected) from error


def _timestamp(text: str) -> Timestamp:
    at = datetime.fromisoformat(text)
    return Timestamp((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def _phase(name: str, word: str) -> Phase:
    try:
        return Phase(word.upper())
    except ValueError as error:
        nearest = difflib.get_close_matches(word.upper(), list(Phase), n=1)
        raise InvalidInputError(
            f"'{word}' is not a phase",
            field=name,
            expected=f"one of {', '.join(Phase)}",
            suggestion=nearest[0] if nearest else None,
        ) from error
