"""Frames on a socket: a header of 16 bytes, the message, then the raw bytes of arrays.

    magic "GL" | version | flags | message bytes (u32) | payload bytes (u64) | message | payload

Little-endian. The flag SHARED says that the payload is not here but in the image that sender and server share, and
that values asked for shall be written there. Used by both ends; knows nothing of what the messages mean.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Protocol

from gangline.ps.errors import WireError

HEADER = struct.Struct("<2sBBIQ")
MAGIC = b"GL"
VERSION = 1
SHARED = 1
MESSAGE_LIMIT = 64 << 20
PAYLOAD_LIMIT = 1 << 36
# The kernel takes at most this many buffers in one call.
VECTOR_LIMIT = 1024

Buffer = bytes | bytearray | memoryview


class Stream(Protocol):
    """A connected socket, or an encrypted one."""

    @property
    def family(self) -> int:
        """The kind of address."""

    def fileno(self) -> int:
        """The descriptor, for a selector."""

    def recv_into(self, target: memoryview, /) -> int:
        """Read; 0 at the end."""

    def sendmsg(self, buffers: Sequence[Buffer], /) -> int:
        """Send as much as goes."""

    def settimeout(self, seconds: float | None, /) -> None:
        """Wait this long for the other side."""

    def close(self) -> None:
        """Let go."""


def frame(message: bytes, payload_bytes: int = 0, flags: int = 0) -> bytes:
    """Header and message; the payload's buffers follow on the socket."""
    return HEADER.pack(MAGIC, VERSION, flags, len(message), payload_bytes) + message


def parse_header(buffer: Buffer, offset: int = 0) -> tuple[int, int, int]:
    """Flags, message bytes and payload bytes; refuses anything that is not ours before memory is set aside for it."""
    magic, version, flags, message_bytes, payload_bytes = HEADER.unpack_from(buffer, offset)
    if magic != MAGIC or version != VERSION:
        raise WireError(f"not a parameter server's message: begins with {magic!r}, version {version}")
    if message_bytes > MESSAGE_LIMIT or payload_bytes > PAYLOAD_LIMIT:
        raise WireError(f"message of {message_bytes} + {payload_bytes} bytes is over the limit")
    return flags, message_bytes, payload_bytes


def byte_view(buffer: object) -> memoryview:
    """The bytes behind an array or buffer, without a copy."""
    view = memoryview(buffer)  # type: ignore[arg-type]  # arrays have the buffer protocol; 3.11 cannot spell it
    return view.cast("B") if view.nbytes else memoryview(b"")


def send_all(sock: Stream, buffers: Iterable[Buffer]) -> None:
    """Send buffers on a blocking socket, many to a system call and none copied."""
    pending = [memoryview(buffer) for buffer in buffers if len(buffer)]
    while pending:
        sent = sock.sendmsg(pending[:VECTOR_LIMIT])
        pending = drop_sent(pending, sent)


def drop_sent(pending: Sequence[memoryview], sent: int) -> list[memoryview]:
    """What is left to send after `sent` bytes have gone."""
    for number, view in enumerate(pending):
        if sent < view.nbytes:
            return [view[sent:], *pending[number + 1 :]]
        sent -= view.nbytes
    return []


class FrameReader:
    """Reads replies from a blocking socket: small ones through a buffer, payloads straight to where they belong."""

    def __init__(self, sock: Stream, buffer_bytes: int = 1 << 16) -> None:
        self._sock = sock
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._start = self._end = 0

    def message(self) -> tuple[int, bytes, int]:
        """Flags, message and the number of payload bytes to fetch next."""
        flags, message_bytes, payload_bytes = parse_header(self._take(HEADER.size))
        if message_bytes <= len(self._buffer):
            return flags, bytes(self._take(message_bytes)), payload_bytes
        message = memoryview(bytearray(message_bytes))
        self.payload([message])
        return flags, bytes(message), payload_bytes

    def payload(self, targets: Iterable[memoryview]) -> None:
        """Fill the targets with the bytes that follow."""
        for target in targets:
            ready = min(self._end - self._start, target.nbytes)
            target[:ready] = self._buffer[self._start : self._start + ready]
            self._start += ready
            while ready < target.nbytes:
                ready += self._received(self._sock.recv_into(target[ready:]))

    def _take(self, size: int) -> memoryview:
        if self._end - self._start < size:
            kept = self._end - self._start
            self._buffer[:kept] = bytes(self._buffer[self._start : self._end])
            self._start, self._end = 0, kept
            while self._end < size:
                self._end += self._received(self._sock.recv_into(self._buffer[self._end :]))
        self._start += size
        return self._buffer[self._start - size : self._start]

    @staticmethod
    def _received(size: int) -> int:
        if not size:
            raise ConnectionResetError("the other side closed the connection")
        return size
