"""One client's connection as the server's loop sees it: bytes in become requests, replies become bytes out.

Never blocks. Small requests are read many at a time through one buffer and their replies leave in one call; a large
payload is received straight into memory of its own, and large values are sent from where they lie, pinned until gone.
"""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gangline.ps.blocks import Array
from gangline.ps.errors import WireError
from gangline.ps.protocol.frames import HEADER, VECTOR_LIMIT, Stream, byte_view, drop_sent, frame, parse_header
from gangline.ps.server.service import Caller
from gangline.ps.server.store import Pin

BUFFER_BYTES = 1 << 18
# Values up to this size are copied behind their reply: cheaper than pinning them.
SMALL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Inbound:
    """One request as it came; the payload is valid until the next is read."""

    flags: int
    message: bytes
    payload: memoryview


class Connection:
    """Reading and writing state of one socket."""

    def __init__(self, sock: Stream, caller: Caller, pending: Callable[[], int] = int) -> None:
        self.sock = sock
        self._pending = pending
        self.caller = caller
        self.greeted = False
        self.watched = selectors.EVENT_READ
        self.descriptors: list[int] = []
        self.unsent: list[memoryview] = []
        self._small = bytearray()
        self._pinned: list[Pin] = []
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._start = self._end = 0
        self._large: memoryview | None = None
        self._large_filled = 0
        self._large_head: tuple[int, bytes] = (0, b"")
        self._memory = byte_view(np.empty(0, np.uint8))

    def receive(self) -> Iterator[Inbound]:
        """Read what has come and yield the requests that are complete."""
        yield from self._receive_once()
        while self._pending():  # decrypted already: the selector does not see it
            yield from self._receive_once()

    def _receive_once(self) -> Iterator[Inbound]:
        if self._large is not None:
            self._large_filled += self._read(self._large[self._large_filled :])
            if self._large_filled == self._large.nbytes:
                payload, self._large = self._large, None
                yield Inbound(*self._large_head, payload)
            return
        self._make_room()
        self._end += self._read(self._buffer[self._end :])
        while (inbound := self._next_in_buffer()) is not None:
            yield inbound

    def enqueue(self, message: bytes, arrays: Sequence[Array], pins: Sequence[Pin]) -> None:
        """Line up one reply."""
        size = sum(array.nbytes for array in arrays)
        self._small += frame(message, size)
        if size <= SMALL_BYTES:
            for array in arrays:
                self._small += byte_view(array)
            return
        self._seal_small()
        self.unsent.extend(byte_view(array) for array in arrays)
        for pin in pins:
            pin.readers += 1
        self._pinned.extend(pins)
        self.flush()

    def flush(self) -> None:
        """Send as much as the socket takes; lets go of the pins when all is gone."""
        self._seal_small()
        while self.unsent:
            try:
                sent = self.sock.sendmsg(self.unsent[:VECTOR_LIMIT])
            except BlockingIOError:
                return
            self.unsent = drop_sent(self.unsent, sent)
        self._unpin()

    def close(self) -> None:
        """Close the socket and let go of everything."""
        self.sock.close()
        self.unsent = []
        self._unpin()
        for descriptor in self.descriptors:
            os.close(descriptor)

    def _seal_small(self) -> None:
        if self._small:
            self.unsent.append(memoryview(self._small))
            self._small = bytearray()

    def _unpin(self) -> None:
        for pin in self._pinned:
            pin.readers -= 1
        self._pinned = []

    def _read(self, target: memoryview) -> int:
        try:
            if isinstance(self.sock, socket.socket) and self.sock.family == socket.AF_UNIX and not self.greeted:
                data, descriptors, _, _ = socket.recv_fds(self.sock, target.nbytes, 1)
                self.descriptors += descriptors
                target[: len(data)] = data
                size = len(data)
            else:
                size = self.sock.recv_into(target)
        except BlockingIOError:
            return 0
        if not size:
            raise ConnectionResetError("closed by the client")
        return size

    def _make_room(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start:
            kept = self._end - self._start
            self._buffer[:kept] = bytes(self._buffer[self._start : self._end])
            self._start, self._end = 0, kept

    def _next_in_buffer(self) -> Inbound | None:
        ready = self._end - self._start
        if ready < HEADER.size:
            return None
        flags, message_bytes, payload_bytes = parse_header(self._buffer, self._start)
        if payload_bytes and not self.greeted:
            raise WireError("a connection begins with Hello, and nothing is set aside for more before that")
        body = self._start + HEADER.size + message_bytes
        total = HEADER.size + message_bytes + payload_bytes
        if total <= ready:
            message = bytes(self._buffer[self._start + HEADER.size : body])
            self._start += total
            return Inbound(flags, message, self._buffer[body : body + payload_bytes])
        if HEADER.size + message_bytes > len(self._buffer):
            self._grow(HEADER.size + message_bytes)
        elif total > len(self._buffer) and HEADER.size + message_bytes <= ready:
            self._begin_large(flags, bytes(self._buffer[self._start + HEADER.size : body]), body, payload_bytes)
        return None

    def _begin_large(self, flags: int, message: bytes, body: int, payload_bytes: int) -> None:
        if self._memory.nbytes < payload_bytes:
            self._memory = byte_view(np.empty(payload_bytes, np.uint8))
        self._large = self._memory[:payload_bytes]
        self._large_head = (flags, message)
        self._large_filled = self._end - body
        self._large[: self._large_filled] = self._buffer[body : self._end]
        self._start = self._end = 0

    def _grow(self, size: int) -> None:
        larger = memoryview(bytearray(2 * size))
        larger[: self._end] = self._buffer[: self._end]
        self._buffer = larger
