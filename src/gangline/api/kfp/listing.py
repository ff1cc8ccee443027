"""Lists as clients ask for them: filters, an order, and pages. Pure.

A page token says behind which item the next page begins, and for which filter and order it was given.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import nlargest, nsmallest
from typing import Any, Generic, TypeVar

from gangline.errors import InvalidInputError

Item = TypeVar("Item")
Fields = Mapping[str, Callable[[Item], Any]]
"""What lists of something can be filtered and sorted by, and how each is found."""

DEFAULT_PAGE = 20
LARGEST_PAGE = 200
_MOST_TEXT = 64 * 1024
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "EQUALS": lambda found, wanted: bool(found == wanted),
    "NOT_EQUALS": lambda found, wanted: bool(found != wanted),
    "GREATER_THAN": lambda found, wanted: bool(found > wanted),
    "GREATER_THAN_EQUALS": lambda found, wanted: bool(found >= wanted),
    "LESS_THAN": lambda found, wanted: bool(found < wanted),
    "LESS_THAN_EQUALS": lambda found, wanted: bool(found <= wanted),
}
_NUMBERS = {str(number): name for number, name in enumerate(("", *_COMPARE, "IN", "IS_SUBSTRING")) if name}
"""Operations by the number that they have in the protocol."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """One condition."""

    key: str
    operation: str
    wanted: Any

    def holds(self, found: Any) -> bool:
        """Whether a value meets it; letters count alike in both cases, and what is absent meets nothing but 'not'."""
        found, wanted = _folded(found), _folded(self.wanted)
        if self.operation == "IN":
            return found in wanted
        if self.operation == "IS_SUBSTRING":
            return isinstance(found, str) and wanted in found
        if found is None or isinstance(found, str) is not isinstance(wanted, str):
            return self.operation == "NOT_EQUALS"
        return _COMPARE[self.operation](found, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest(Generic[Item]):
    """What a list was asked for with."""

    fields: Fields[Item]
    predicates: tuple[Predicate, ...] = ()
    sort_key: str = "created_at"
    descending: bool = False
    size: int = DEFAULT_PAGE
    after: tuple[tuple[int, Any], str] | None = None
    mark: str = ""
    """What tells this filter and order from others."""

    def wants(self, item: Item) -> bool:
        """Whether an item meets the filter."""
        return all(each.holds(self.fields[each.key](item)) for each in self.predicates)

    def page(self, items: Sequence[Item], name: Callable[[Item], str]) -> tuple[list[Item], str, int]:
        """Return one page, the token of the next and how many there are in all."""
        found = [item for item in items if self.wants(item)] if self.predicates else items
        field = self.fields[self.sort_key]
        places = [(_comparable(field(item)), name(item), number) for number, item in enumerate(found)]
        if self.after is not None:
            after = self.after
            places = [each for each in places if (each[:2] < after if self.descending else each[:2] > after)]
        choose = nlargest if self.descending else nsmallest
        shown = choose(self.size, places)
        token = _token(shown[-1][:2], self.mark) if len(places) > len(shown) else ""
        return [found[number] for _, _, number in shown], token, len(found)


def _comparable(value: Any) -> tuple[int, Any]:
    """Return what sorts: what is absent first, then numbers, then texts."""
    if value is None:
        return 0, 0
    return (1, value) if isinstance(value, int | float) else (2, str(value))


def read_request(query: Mapping[str, str], fields: Fields[Item]) -> ListRequest[Item]:
    """Read what a list is asked for with; raises InvalidInputError."""
    sort_key, descending = _order(query.get("sort_by", ""), fields)
    filter_text = query.get("filter", "")
    mark = hashlib.sha256(f"{filter_text}\0{query.get('sort_by', '')}".encode()).hexdigest()[:8]
    return ListRequest(
        fields=fields,
        predicates=_predicates(filter_text, fields),
        sort_key=sort_key,
        descending=descending,
        size=_size(query.get("page_size", "")),
        after=_after(query.get("page_token", ""), mark),
        mark=mark,
    )


def _order(text: str, fields: Fields[Item]) -> tuple[str, bool]:
    words = text.split()
    if not words:
        return "created_at", False
    if len(words) > 2 or (len(words) == 2 and words[1].lower() not in ("asc", "desc")):
        raise InvalidInputError(f"'{text}' is not understood", field="sort_by", expected="'created_at desc'")
    if words[0] not in fields:
        raise _no_such("sort_by", words[0], fields)
    return words[0], words[1:] == ["desc"] or [each.lower() for each in words[1:]] == ["desc"]


def _size(text: str) -> int:
    if text in ("", "0"):
        return DEFAULT_PAGE
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInputError(f"'{text}' is not understood", field="page_size", expected="0 to 200")
    return min(int(text), LARGEST_PAGE)


def _token(position: tuple[tuple[int, Any], str], mark: str) -> str:
    (rank, value), name = position
    return base64.urlsafe_b64encode(json.dumps([mark, rank, value, name]).encode()).decode()


def _after(token: str, mark: str) -> tuple[tuple[int, Any], str] | None:
    if not token:
        return None
    try:
        given, rank, value, name = json.loads(base64.urlsafe_b64decode(token.encode()))
        whole = isinstance(name, str) and _comparable(None if rank == 0 else value) == (rank, value)
    except (ValueError, TypeError, RecursionError):
        given, rank, value, name, whole = "", 0, 0, "", False
    if not whole or given != mark:
        raise InvalidInputError(
            "it is not the token of a page of this list",
            field="page_token",
            expected="next_page_token of a list with the same filter and sort_by",
        )
    return (rank, value), name


def _predicates(text: str, fields: Fields[Item]) -> tuple[Predicate, ...]:
    if not text:
        return ()
    try:
        found = json.loads(text) if len(text) <= _MOST_TEXT else None
    except (ValueError, RecursionError):
        found = None
    listed = found.get("predicates", []) if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise InvalidInputError(
            "the filter is not understood", field="filter", expected='{"predicates": [...]} as JSON'
        )
    return tuple(_predicate(each, f"filter.predicates[{number}]", fields) for number, each in enumerate(listed))


def _predicate(found: object, where: str, fields: Fields[Item]) -> Predicate:
    if not isinstance(found, dict):
        raise InvalidInputError("it is not a predicate", field=where, expected="operation, key and a value")
    key, operation = found.get("key"), str(found.get("operation", found.get("op", "")))
    if not isinstance(key, str) or key not in fields:
        raise _no_such(f"{where}.key", str(key), fields)
    operation = _NUMBERS.get(operation, operation)
    if operation not in _NUMBERS.values():
        raise InvalidInputError(
            f"'{operation}' is not an operation",
            field=f"{where}.operation",
            expected=f"one of {', '.join(_NUMBERS.values())}",
        )
    return Predicate(key, operation, _value(found, operation, where))


def _value(found: Mapping[str, Any], operation: str, where: str) -> Any:
    """Return what is compared with: clients write the names of the fields in two ways."""
    values = {name.replace("_", "").lower(): value for name, value in found.items()}
    several = next((values[f"{kind}values"] for kind in ("string", "int", "long") if f"{kind}values" in values), None)
    if operation == "IN":
        listed = several.get("values") if isinstance(several, dict) else None
        if not isinstance(listed, list):
            raise InvalidInputError("IN needs a list", field=where, expected='"string_values": {"values": [...]}')
        return tuple(each if isinstance(each, str) else float(each) for each in listed if isinstance(each, str | int))
    text = values.get("stringvalue")
    if isinstance(text, str):
        return text
    if operation == "IS_SUBSTRING":
        raise InvalidInputError("IS_SUBSTRING needs text", field=where, expected='"string_value": "..."')
    number = values.get("intvalue", values.get("longvalue"))
    try:
        if number is not None and not isinstance(number, bool):
            return float(number)
        at = datetime.fromisoformat(values["timestampvalue"])
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (KeyError, TypeError, ValueError):
        named = next((each for each in ("timestampvalue", "intvalue", "longvalue") if each in values), None)
        raise InvalidInputError(
            "the predicate has no value" if named is None else f"{values[named]!r} is not understood",
            field=where,
            expected="string_value, int_value, long_value or timestamp_value",
        ) from None


def _folded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_folded(each) for each in value)
    return value.lower() if isinstance(value, str) else value


def _no_such(where: str, name: str, fields: Fields[Item]) -> InvalidInputError:
    return InvalidInputError(f"'{name}' cannot be used here", field=where, expected=f"one of {', '.join(fields)}")
