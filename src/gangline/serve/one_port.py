"""One port for HTTP and gRPC: the first bytes of a connection say which of them it speaks.

So a replica of a service has one address, whatever its clients speak. Connections of gRPC are passed on to gRPC's own
server in this process, which listens on this machine alone.
"""

import asyncio
from collections.abc import Awaitable, Callable

_HTTP2 = b"PRI * HTTP/2.0\r\n"
_REFUSED = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    b'{"error":"gRPC needs more packages: pip install \'gangline[serve]\'"}'
)

Rpc = Callable[[], Awaitable[int]]
"""Starts gRPC's server unless it runs, and returns its port. Raises ImportError."""


class FirstBytes(asyncio.Protocol):
    """A connection that has not said yet what it speaks."""

    def __init__(self, http: Callable[[], asyncio.Protocol], rpc: Rpc) -> None:
        self._http = http
        self._rpc = rpc
        self._seen = bytearray()
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for what comes."""
        self._transport = transport  # type: ignore[assignment]  # connections of streams have nothing else

    def data_received(self, data: bytes) -> None:
        """Decide, and leave the connection to who speaks its protocol."""
        self._seen += data
        if not _HTTP2.startswith(self._seen[: len(_HTTP2)]):
            speaker = self._http()
            self._transport.set_protocol(speaker)
            speaker.connection_made(self._transport)
            speaker.data_received(bytes(self._seen))
        elif len(self._seen) >= len(_HTTP2) and self._task is None:
            self._transport.pause_reading()
            self._task = asyncio.get_running_loop().create_task(self._pass_on())

    async def _pass_on(self) -> None:
        try:
            port = await self._rpc()
            other, _ = await asyncio.get_running_loop().create_connection(
                lambda: _Passed(self._transport), "127.0.0.1", port
            )
        except ImportError:
            self._transport.write(_REFUSED)
            self._transport.close()
            return
        except OSError:
            self._transport.close()
            return
        other.write(bytes(self._seen))
        self._transport.set_protocol(_Passed(other))
        self._transport.resume_reading() if not self._transport.is_closing() else other.close()


class _Passed(asyncio.Protocol):
    """One side of a connection that is passed on: what comes goes to the other side, at its pace."""

    def __init__(self, other: asyncio.Transport) -> None:
        self._other = other

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._other.write(data)

    def pause_writing(self) -> None:
        """This side is slow: the other is not read meanwhile."""
        if not self._other.is_closing():
            self._other.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        if not self._other.is_closing():
            self._other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other side, too."""
        self._other.close()
