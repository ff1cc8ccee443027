"""Bodies of answers as bytes, and values as plain data for whoever prints them; forms.py says what they look like."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

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
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    kind: Any = type(value)
    return form_of(kind).write(value)
