"""Bodies of answers as bytes, and values as plain data for whoever prints them; forms.py says what they look like."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from gangline.model.record import Page, Record
from gangline.wire.forms import Form, form_of

T = TypeVar("T")


class Codec(Generic[T]):
    """Writes and reads values of one type."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._decoder = msgspec.json.Decoder(form.schema)

    def encode(self, value: T) -> bytes:
        """Return the value as JSON."""
        return msgspec.json.encode(self._form.write(value))

    def decode(self, body: bytes) -> T:
        """Read a value; raises msgspec.DecodeError for what is none."""
        found: T = self._form.read(self._decoder.decode(body))
        return found


def codec(kind: type[T]) -> Codec[T]:
    """Return the codec of a type; it is derived when first asked for."""
    wanted: Any = kind  # generics are types to us, and to mypy something else
    return _codec(wanted)


@cache
def _codec(kind: Any) -> Codec[Any]:
    return Codec(form_of(kind))


def plain(value: object) -> Any:
    """Return any value that the service or the client hands out as plain data, ready for JSON and YAML."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Page):
        rest = {"next": value.next, "unreadable": plain(value.unreadable)}
        return {"items": plain(value.items), **{name: each for name, each in rest.items() if each}}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return form_of(_type_of(value)).write(value)


def _type_of(value: object) -> Any:
    """Return the type of a value; of a record, with what it is a record of, which no instance knows by itself."""
    if isinstance(value, Record):
        wanted: Any = Record
        return wanted[type(value.spec), type(value.status)]
    return type(value)
