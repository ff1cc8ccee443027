"""The event files of TensorBoard: framed records, each a protocol buffer message, whose scalars are read and written.

Only the few fields that matter are decoded, so that no package is needed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from gangline.runtime.protocol_buffers import field_to_bytes, fields_of, varint_to_bytes

_HEAD, _TAIL = 12, 4
"""Bytes before a record (its length and a checksum of that) and after it (its checksum)."""
_MOST_BYTES = 64 << 20
_FLOAT, _DOUBLE = 1, 2
_VERSION = b"brain.Event:2"
_CASTAGNOLI = 0x82F63B78
_MASK = 0xA282EAD8


class Scalar(NamedTuple):
    """One number of an event file."""

    tag: str
    value: float
    step: int
    at: float | None


def read_events(data: bytes) -> tuple[list[Scalar], int]:
    """Return the scalars of all whole records, and how many bytes those are; the rest has to be read again."""
    found: list[Scalar] = []
    place = 0
    while place + _HEAD <= len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        if length > _MOST_BYTES:
            return found, len(data)  # not an event file
        end = place + _HEAD + length + _TAIL
        if end > len(data):
            break
        found += _scalars(data[place + _HEAD : place + _HEAD + length])
        place = end
    return found, place


def _scalars(event: bytes) -> Iterator[Scalar]:
    try:
        fields = list(fields_of(event))
        times = (value for number, value in fields if number == 1 and isinstance(value, bytes))
        at = next((float(struct.unpack("<d", value)[0]) for value in times), None)
        step = next((value for number, value in fields if number == 2 and isinstance(value, int)), 0)
        for number, summary in fields:
            if number == 5 and isinstance(summary, bytes):
                for inner, value in fields_of(summary):
                    if inner == 1 and isinstance(value, bytes) and (scalar := _value(value)) is not None:
                        yield Scalar(scalar[0], scalar[1], step, at)
    except (struct.error, IndexError, UnicodeDecodeError):
        return  # of another version, or damaged: the next record begins where the frame says


def _value(message: bytes) -> tuple[str, float] | None:
    fields = dict(fields_of(message))
    tag, simple, tensor = fields.get(1), fields.get(2), fields.get(8)
    if not isinstance(tag, bytes):
        return None
    if isinstance(simple, bytes):
        return tag.decode(), struct.unpack("<f", simple)[0]
    number = _tensor(tensor) if isinstance(tensor, bytes) else None
    return None if number is None else (tag.decode(), number)


def _tensor(message: bytes) -> float | None:
    """The number in a tensor of one, as TensorFlow 2 writes scalars."""
    fields = dict(fields_of(message))
    kind = fields.get(1)
    form = "<f" if kind == _FLOAT else "<d" if kind == _DOUBLE else ""
    content = fields.get(4) or fields.get(5 if kind == _FLOAT else 6)
    if not form or not isinstance(content, bytes) or len(content) != struct.calcsize(form):
        return None
    number: float = struct.unpack(form, content)[0]
    return number


def write_events(scalars: Iterable[Scalar]) -> bytes:
    """Return records that can be appended to an event file."""
    return b"".join(_record(_event(scalar)) for scalar in scalars)


def first_record(at: float) -> bytes:
    """Return what every event file begins with."""
    return _record(b"\x09" + struct.pack("<d", at) + field_to_bytes(3, _VERSION))


def _event(scalar: Scalar) -> bytes:
    value = field_to_bytes(1, scalar.tag.encode()) + b"\x15" + struct.pack("<f", _fitting(scalar.value))
    step = b"\x10" + varint_to_bytes(scalar.step & (1 << 64) - 1)
    time = b"\x09" + struct.pack("<d", scalar.at or 0.0)
    return time + step + field_to_bytes(5, field_to_bytes(1, value))


def _fitting(value: float) -> float:
    """A number that is too large for a float of 32 bits as the infinity that it would be read as."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return math.copysign(math.inf, value)
    return value


def _record(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + _checksum(length) + event + _checksum(event)


def _checksum(data: bytes) -> bytes:
    """CRC-32C, turned and shifted as these files have it."""
    found = 0xFFFFFFFF
    table = _table()
    for byte in data:
        found = table[(found ^ byte) & 0xFF] ^ (found >> 8)
    found ^= 0xFFFFFFFF
    return struct.pack("<I", ((found >> 15 | found << 17) + _MASK) & 0xFFFFFFFF)


@cache
def _table() -> tuple[int, ...]:
    entries = []
    for number in range(256):
        entry = number
        for _ in range(8):
            entry = entry >> 1 ^ _CASTAGNOLI if entry & 1 else entry >> 1
        entries.append(entry)
    return tuple(entries)
