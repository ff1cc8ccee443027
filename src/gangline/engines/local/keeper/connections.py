"""The keeper's end of its connections to engines: orders come in as lines of JSON, one byte goes out for "look"."""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
from collections.abc import Callable

_CREDENTIALS = struct.Struct("3i")
"""What the kernel says of a peer: process, user and group."""


class EngineConnections:
    """Everybody who gives this keeper orders: as a rule one engine, after a restart perhaps two for a moment."""

    def __init__(
        self,
        listener: socket.socket,
        selector: selectors.BaseSelector,
        obey: Callable[[dict[str, object]], None],
    ) -> None:
        self._listener = listener
        self._selector = selector
        self._obey = obey
        self._unfinished: dict[socket.socket, bytes] = {}
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def poke(self) -> None:
        """Tell every engine that the record has changed, and who has just come too."""
        while self._accept(None):
            pass
        for connection in self._unfinished:
            _poke(connection)

    def _accept(self, _: object) -> bool:
        """Accept a connection that waits; False if nobody does."""
        try:
            connection, _address = self._listener.accept()
        except BlockingIOError:
            return False
        # An abstract socket has no file permissions: anybody may knock, only the keeper's own user and root come in.
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] not in (os.getuid(), 0):
            connection.close()
            return True
        connection.setblocking(False)
        self._unfinished[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ, self._hear)
        _poke(connection)
        return True

    def _hear(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._selector.unregister(connection)
            del self._unfinished[connection]
            connection.close()
            return
        *lines, self._unfinished[connection] = (self._unfinished[connection] + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))


def _poke(connection: socket.socket) -> None:
    try:
        connection.send(b".")
    except (BlockingIOError, ConnectionError):
        # Unread pokes say the same; a broken connection is noticed when it is read.
        return
