"""A client's connection: one request after another."""

import asyncio
from contextlib import suppress

from gangline.router.exchange import Exchange, RefusalError, find_service, no_revision, refusal_bytes
from gangline.router.messages import MessageError, RequestHead, end_of_head, read_request
from gangline.router.services import Found, Services
from gangline.router.wires import Goodbye, Sweep, Wire

_HEAD_SECONDS = 10.0
"""A head that takes longer to arrive is given up, however steadily it trickles."""
_BETWEEN_SECONDS = 75.0
"""How long a connection may stay open without a request."""
_LINGER_SECONDS = 1.0


class Clients:
    """Everybody who is connected, and what they share."""

    def __init__(self, services: Services, sweep: Sweep) -> None:
        self.services = services
        self.sweep = sweep
        self.idle: set[Wire] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.speaking_http2: set[Goodbye] = set()
        self.stopping = False

    def protocol(self, port_of: str = "") -> "Client":
        """Return the protocol of a new connection; ``port_of`` is the service whose own port it came to."""
        return Client(self, port_of)

    async def stop(self, seconds: float) -> None:
        """Let requests under way end, then close what is left."""
        self.stopping = True
        for wire in list(self.idle):
            wire.close()
        for peer in list(self.speaking_http2):
            peer.say_goodbye()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=seconds)
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)
        for revision in self.services.revisions():
            revision.close_idle()
        while self.sweep.wires:
            for wire in list(self.sweep.wires):
                wire.abort()
            await asyncio.sleep(0)  # they say that they are gone in the next turn of the loop


class Client(Wire):
    """The connection of a client."""

    __slots__ = ("_clients", "_port_of", "forwarded")

    def __init__(self, clients: Clients, port_of: str) -> None:
        super().__init__(clients.sweep)
        self._clients = clients
        self._port_of = port_of
        self.forwarded = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.forwarded = b"X-Forwarded-For: %s\r\nX-Forwarded-Proto: %s\r\n" % (
            str(peer[0] if isinstance(peer, tuple) else "unix").encode(),
            b"https" if transport.get_extra_info("sslcontext") else b"http",
        )
        task = asyncio.get_running_loop().create_task(self._serve())
        self._clients.tasks.add(task)
        task.add_done_callback(self._clients.tasks.discard)
        self.on_lost = task

    async def _serve(self) -> None:
        try:
            with suppress(TimeoutError, asyncio.CancelledError):
                while await self._next():
                    pass
                if not self.lost:
                    await self._linger()
        finally:
            self._clients.idle.discard(self)
            self.on_lost = None
            self.close()

    async def _next(self) -> bool:
        """Answer one request; return whether there may be another."""
        try:
            head = await self._head()
        except MessageError as problem:
            self.write(refusal_bytes(problem.status, str(problem)))
            return False
        if head is None:
            return False
        began = self._loop.time()
        try:
            found = self._find(head)
            revision = found.service.choose(head.fields, found.tag)
            if revision is None:
                raise no_revision(found, head.fields)
        except RefusalError as refusal:
            return await self._refuse(refusal, head)
        exchange = Exchange(self, head, found, revision, self.sweep)
        prefix = self.forwarded + b"X-Forwarded-Host: %s\r\n" % head.host
        if found.prefix:
            prefix += b"X-Forwarded-Prefix: %s\r\n" % found.prefix
        try:
            await exchange.run(prefix)
        except RefusalError as refusal:
            exchange.status = refusal.status
            return await self._refuse(refusal, head)
        except asyncio.CancelledError:
            exchange.revision.tally.error("client")
            raise
        finally:
            exchange.revision.tally.ended(exchange.status, self._loop.time() - began)
        return exchange.keep and not self.lost and not self._clients.stopping

    @property
    def sweep(self) -> Sweep:
        """Where the limits of its connections are looked after."""
        return self._clients.sweep

    async def _head(self) -> RequestHead | None:
        """Read the next head; None if there is none."""
        if not self.buffer:
            self._clients.idle.add(self)
            if self._clients.stopping or not await self.more(_BETWEEN_SECONDS):
                return None
            self._clients.idle.discard(self)
        until = self._loop.time() + _HEAD_SECONDS
        while self.buffer[:2] == b"\r\n":  # some clients end a body with an empty line too many
            del self.buffer[:2]
        seen = 0
        while (end := end_of_head(self.buffer, max(0, seen - 3))) < 0:
            seen = len(self.buffer)
            try:
                if not await self.more(until - self._loop.time()):
                    return None
            except TimeoutError:
                raise MessageError("the headers did not come in time", 408) from None
        if self.buffer[:4] == b"PRI ":
            await self._speak_http2()
            return None
        head = read_request(bytes(self.buffer[:end]))
        del self.buffer[:end]
        return head

    async def _speak_http2(self) -> None:
        """Leave the connection to the streams of gRPC until it ends."""
        try:
            from gangline.router.calls import Calls
            from gangline.router.http2 import Peer
        except ImportError:
            raise MessageError("HTTP/2 needs another package: pip install 'gangline[serve]'", 505) from None
        lines = (line.split(b": ") for line in self.forwarded.splitlines())
        calls = Calls(self._clients.services, self._port_of, [(name.lower(), value) for name, value in lines])
        peer = Peer(calls.begin)
        self._clients.speaking_http2.add(peer)
        self.transport.set_protocol(peer)
        try:
            peer.connection_made(self.transport)
            peer.data_received(bytes(self.buffer))
            if self._clients.stopping:
                peer.say_goodbye()
            await peer.done
        finally:
            self._clients.speaking_http2.discard(peer)
            await peer.end()
            self.on_lost = None
            self.connection_lost(None)  # it hears nothing itself any more

    def _find(self, head: RequestHead) -> Found:
        host, target = head.host, head.target
        if target[:7].lower() == b"http://" or target[:8].lower() == b"https://":
            host, slash, rest = target.partition(b"://")[2].partition(b"/")
            target = slash + rest or b"/"
        elif not target.startswith(b"/") and target != b"*":
            raise RefusalError(400, "the address is malformed")
        return find_service(self._clients.services, self._port_of, host, target, head.get(b"authorization"))

    async def _refuse(self, refusal: RefusalError, head: RequestHead) -> bool:
        """Answer without a backend; a small body that has come with the request is skipped."""
        if self.buffer and not head.body.done:
            with suppress(MessageError):
                head.body.take(self.buffer)
        keep = head.body.done and head.keep_alive and head.modern and not self._clients.stopping
        body = head.method != b"HEAD"
        self.write(refusal_bytes(refusal.status, str(refusal), refusal.headers, body=body, keep=keep))
        return keep

    async def _linger(self) -> None:
        """Read what the client still sends for a moment: closing at once could take the answer away from it."""
        if self.transport.is_closing() or not self.transport.can_write_eof():
            return
        self.half_open, self.on_lost = True, None
        self.transport.write_eof()
        until = self._loop.time() + _LINGER_SECONDS
        while self._loop.time() < until:
            self.buffer.clear()
            if not await self.more(max(0.0, until - self._loop.time())):
                return
