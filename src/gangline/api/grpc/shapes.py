"""Which messages the types of the wire become: pure, from the same schemas that answers in JSON are checked against."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from msgspec import inspect

from gangline.wire.forms import form_of

STRUCT, VALUE = "google.protobuf.Struct", "google.protobuf.Value"
TIMESTAMP, EMPTY = "google.protobuf.Timestamp", "google.protobuf.Empty"
_METADATA = "Metadata"
_SCALARS: Mapping[Any, str] = {
    inspect.StrType: "string",
    inspect.IntType: "int64",
    inspect.BoolType: "bool",
    inspect.FloatType: "double",
    inspect.BytesType: "bytes",
    inspect.DateTimeType: TIMESTAMP,
    inspect.AnyType: VALUE,
    inspect.CustomType: VALUE,
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: its type as the .proto writes it, with ``optional``, ``repeated`` or nothing before."""

    name: str
    type: str
    label: str = ""


@dataclass(slots=True)
class Shapes:
    """The messages and enumerations that were needed so far, by name."""

    messages: dict[str, tuple[Field, ...]] = field(default_factory=dict)
    enums: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The texts of each enumeration's values, by their names in the .proto."""
    _made: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        text, texts = Field("name", "string"), Field("labels", "map<string, string>")
        given = (Field(name, "string", "optional") for name in ("tenant", "namespace", "queue", "origin"))
        more = (Field("priority", "int64", "optional"), Field("manifest", STRUCT), Field("annotations", texts.type))
        self.messages[_METADATA] = (text, *given, texts, *more)

    def answer(self, kind: Any) -> str:
        """Return the name of the message that an answer of this type is."""
        if kind is None:
            return EMPTY
        return self._message(inspect.type_info(form_of(kind).schema))

    def body(self, kind: Any) -> Field:
        """Return the field that has the body of a request."""
        if kind is bytes:
            return Field("chunk", "bytes")
        return self._field("body", inspect.type_info(kind), required=True)

    def parameter(self, name: str, kind: Any) -> Field:
        """Return the field of a parameter of the query."""
        return self._field(name, inspect.type_info(form_of(kind).schema), required=False)

    def _message(self, kind: Any) -> str:
        """Return a message for any type; one for a list or an object is named after what it holds."""
        if isinstance(kind, inspect.StructType):
            return self._struct(kind)
        if isinstance(kind, inspect.ListType):
            item = self._single(kind.item_type)
            return self._wrapper(f"ListOf{_spoken(item)}", Field("items", item, "repeated"))
        if isinstance(kind, inspect.DictType) and not _is_anything(kind.value_type):
            item = self._single(kind.value_type)
            return self._wrapper(f"MapOf{_spoken(item)}", Field("items", f"map<string, {item}>"))
        if isinstance(kind, inspect.DictType):
            return STRUCT
        raise TypeError(f"{kind!r} has no message")

    def _single(self, kind: Any) -> str:
        """Return the type of one item: what stands in a list or as a value of a map."""
        kind, _ = _without_none(kind)
        if isinstance(kind, inspect.UnionType):
            return VALUE
        if type(kind) in _SCALARS:
            return _SCALARS[type(kind)]
        return self._enum(kind.cls) if isinstance(kind, inspect.EnumType) else self._message(kind)

    def _field(self, name: str, kind: Any, *, required: bool) -> Field:
        kind, nullable = _without_none(kind)
        if isinstance(kind, inspect.ListType):
            return Field(name, self._single(kind.item_type), "repeated")
        if isinstance(kind, inspect.DictType) and not _is_anything(kind.value_type):
            value, absent = _without_none(kind.value_type)
            return Field(name, f"map<string, {VALUE if absent else self._single(value)}>")
        found = self._single(kind)
        # Messages know by themselves whether they are there.
        scalar = "." not in found and found not in self.messages
        return Field(name, found, "optional" if scalar and (nullable or not required) else "")

    def _struct(self, kind: inspect.StructType) -> str:
        name = kind.cls.__name__
        if self._made.setdefault(name, kind.cls) is not kind.cls:
            raise TypeError(f"two types of the wire are called {name}")
        if name not in self.messages:
            self.messages[name] = ()  # found again from within
            self.messages[name] = tuple(self._fields(kind))
        return name

    def _fields(self, kind: inspect.StructType) -> Iterator[Field]:
        document = {"metadata", "spec", "status"} <= {each.name for each in kind.fields}
        for each in kind.fields:
            if document and each.name == "metadata":
                yield Field(each.name, _METADATA)
            else:
                yield self._field(each.name, each.type, required=each.required)

    def _enum(self, kind: type[Enum]) -> str:
        prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).upper()
        names = {f"{prefix}_{re.sub(r'(?<=[a-z0-9])(?=[A-Z])|-', '_', str(each.value)).upper()}": each for each in kind}
        self.enums[kind.__name__] = {name: str(each.value) for name, each in names.items()}
        return kind.__name__

    def _wrapper(self, name: str, item: Field) -> str:
        self.messages[name] = (item,)
        return name


def _without_none(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether it was there; numbers are numbers, although JSON writes NaN as text."""
    if not isinstance(kind, inspect.UnionType):
        return kind, False
    rest = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    if any(isinstance(each, inspect.FloatType) for each in rest):
        rest = [each for each in rest if not isinstance(each, inspect.LiteralType)]
    found = rest[0] if len(rest) == 1 else inspect.UnionType(tuple(rest))
    return found, len(rest) < len(kind.types) and any(isinstance(each, inspect.NoneType) for each in kind.types)


def _is_anything(kind: Any) -> bool:
    return isinstance(kind, inspect.CustomType | inspect.AnyType)


def _spoken(name: str) -> str:
    return name.rpartition(".")[2][:1].upper() + name.rpartition(".")[2][1:]
