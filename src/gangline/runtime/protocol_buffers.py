"""Messages of protocol buffers taken apart, for the few of others that are read without their definitions."""

from __future__ import annotations

from collections.abc import Iterator


def fields_of(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Return every field of a message by its number: integers as such, everything else as its bytes.

    Raises IndexError for one that is cut short.
    """
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if kind == 2:
            length, place = _varint(message, place)
        else:
            length = {1: 8, 5: 4}[kind] if kind in (1, 5) else len(message)
        yield key >> 3, message[place : place + length]
        place += length


def field_to_bytes(number: int, data: bytes) -> bytes:
    """Write a field that is text or a message."""
    return bytes([number << 3 | 2]) + varint_to_bytes(len(data)) + data


def varint_to_bytes(value: int) -> bytes:
    """Write an integer that is not negative."""
    written = b""
    while True:
        value, byte = value >> 7, value & 0x7F
        written += bytes([byte | 0x80 if value else byte])
        if not value:
            return written


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, place
        shift += 7
