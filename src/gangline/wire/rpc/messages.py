"""Plain data as messages and back, by the message's own description. The names of fields are those of the JSON.

What JSON leaves out is not set, so a message read back is the very same JSON. Enumerations have the text of each
value as an option. A message called ListOf or MapOf stands for the bare list or object that it holds, because
messages have no other place for one.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from google.protobuf import descriptor

from gangline.wire.forms import json_number
from gangline.wire.rpc import gangline_pb2

pb: Any = gangline_pb2  # its classes are made when it is imported
Message = Any
Plain = Any
Field = descriptor.FieldDescriptor

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BARE = ("ListOf", "MapOf")
_METADATA = "Metadata"
"""Part of a file, in which nothing is empty: not every kind has every field."""
_SAFE_INTEGER = 2**53


def message_from(made: type[Message], value: Plain) -> Message:
    """Return a message with what plain data says; what the message has no field for is left out."""
    message = made()
    _fill(message, value)
    return message


def plain_from(message: Message) -> Plain:
    """Return what a message says as plain data."""
    return _reader(message.DESCRIPTOR)(message)


def _fill(message: Message, value: Plain) -> None:
    known = _SPECIAL.get(message.DESCRIPTOR.full_name)
    if known is not None:
        known[0](message, value)
    elif message.DESCRIPTOR.name.startswith(_BARE):
        _set(message, message.DESCRIPTOR.fields_by_name["items"], value)
    else:
        message.SetInParent()
        for name, field in message.DESCRIPTOR.fields_by_name.items():
            if value.get(name) is not None:
                _set(message, field, value[name])


def _set(message: Message, field: Any, value: Plain) -> None:
    if _is_map(field):
        place, item = getattr(message, field.name), field.message_type.fields_by_name["value"]
        for key, each in value.items():
            if item.message_type is not None:
                _fill(place[key], each)
            else:
                place[key] = _leaf(item, each)
    elif field.is_repeated:
        place = getattr(message, field.name)
        for each in value:
            if field.message_type is not None:
                _fill(place.add(), each)
            else:
                place.append(_leaf(field, each))
    elif field.message_type is not None:
        _fill(getattr(message, field.name), value)
    else:
        setattr(message, field.name, _leaf(field, value))


def _leaf(field: Any, value: Plain) -> Any:
    if field.enum_type is not None:
        return _numbers(field.enum_type).get(value, 0)
    # "NaN" and "Infinity" are texts in JSON.
    return float(value) if field.type == Field.TYPE_DOUBLE else value


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


@cache
def _numbers(kind: Any) -> Mapping[str, int]:
    return {value.GetOptions().Extensions[pb.text]: value.number for value in kind.values if value.number}


@cache
def _texts(kind: Any) -> Mapping[int, str]:
    return {number: text for text, number in _numbers(kind).items()}


Read = Callable[[Message], Plain]


@cache
def _reader(kind: Any) -> Read:
    """Derive how a message is read, once for each: a stream of output has many of few."""
    known = _SPECIAL.get(kind.full_name)
    if known is not None:
        return known[1]
    fields = [(field.name, _field_reader(field), _has_presence(field)) for field in kind.fields]
    if kind.name.startswith(_BARE):
        ((name, read, _),) = fields
        return lambda message: read(getattr(message, name))

    brief = kind.name == _METADATA

    def read_message(message: Message) -> Plain:
        return {
            name: read(getattr(message, name))
            for name, read, presence in fields
            if (message.HasField(name) if presence else not brief or getattr(message, name))
        }

    return read_message


def _has_presence(field: Any) -> bool:
    return bool(field.has_presence) and not field.is_repeated


def _field_reader(field: Any) -> Read:
    if _is_map(field):
        read = _item_reader(field.message_type.fields_by_name["value"])
        return lambda items: {key: read(items[key]) for key in items}
    one = _item_reader(field)
    return (lambda items: [one(item) for item in items]) if field.is_repeated else one


def _item_reader(field: Any) -> Read:
    if field.message_type is not None:
        return _reader(field.message_type)
    if field.enum_type is not None:
        return lambda number: _texts(field.enum_type).get(number, "")
    return json_number if field.type == Field.TYPE_DOUBLE else lambda value: value


def _fill_struct(message: Message, value: Plain) -> None:
    message.SetInParent()
    for key, each in value.items():
        _fill_value(message.fields[key], each)


def _fill_value(message: Message, value: Plain) -> None:
    if value is None:
        message.null_value = 0
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int | float):
        message.number_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, Mapping):
        _fill_struct(message.struct_value, value)
    else:
        message.list_value.SetInParent()
        for each in value:
            _fill_value(message.list_value.values.add(), each)


def _read_struct(message: Message) -> Plain:
    return {key: _read_value(message.fields[key]) for key in message.fields}


def _read_value(message: Message) -> Plain:
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    found = getattr(message, kind)
    if kind == "struct_value":
        return _read_struct(found)
    if kind == "list_value":
        return [_read_value(each) for each in found.values]
    # All numbers of such a value are floating-point; a whole one was written as one, and files say 4, not 4.0.
    return int(found) if kind == "number_value" and found.is_integer() and abs(found) < _SAFE_INTEGER else found


def _fill_time(message: Message, value: str) -> None:
    micros = (datetime.fromisoformat(value).astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    message.SetInParent()
    message.seconds, message.nanos = micros // 1_000_000, micros % 1_000_000 * 1000


def _read_time(message: Message) -> str:
    moment = _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    return moment.isoformat().replace("+00:00", "Z")


_SPECIAL: Mapping[str, tuple[Callable[[Message, Plain], None], Read]] = {
    "google.protobuf.Struct": (_fill_struct, _read_struct),
    "google.protobuf.Value": (_fill_value, _read_value),
    "google.protobuf.Timestamp": (_fill_time, _read_time),
}
