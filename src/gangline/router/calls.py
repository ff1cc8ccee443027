"""One call of gRPC through the router: who gets it, what is tried again, and its messages in both directions.

A call is one stream of HTTP/2, so calls of one connection may go to different replicas. The messages are not looked at.
"""

import asyncio
from collections.abc import Callable
from urllib.parse import quote

from h2.errors import ErrorCodes

from gangline.router.exchange import Attempts, RefusalError, find_service, no_revision
from gangline.router.http2 import End, Head, Headers, Peer, Piece, Stream, StreamLostError
from gangline.router.messages import HOP_BY_HOP, REPLACED, Fields
from gangline.router.services import BackendNow, Found, RevisionNow, Services

SERVICE_HEADER = b"gangline-service"
"""Names the service in a call's metadata, for clients that cannot choose the host name."""
_DROPPED = (HOP_BY_HOP - {b"te"}) | REPLACED | {b"host"}
_UNAVAILABLE = 14
_STATUS = {400: 3, 401: 16, 404: 12, 502: _UNAVAILABLE, 503: _UNAVAILABLE, 504: 4}
"""What the router's own refusals are in gRPC, as gRPC's clients would translate them."""
_FAULTS = {2: 500, 4: 504, 12: 501, 13: 500, _UNAVAILABLE: 503, 15: 500}
"""Codes of gRPC that are the service's fault, as statuses of HTTP; others but 0 are the caller's."""


class Calls:
    """The calls of one client's connection."""

    def __init__(self, services: Services, port_of: str, forwarded: Headers) -> None:
        self._services = services
        self._port_of = port_of
        self._forwarded = forwarded

    def begin(self, stream: Stream, headers: Headers) -> "asyncio.Task[None]":
        """Serve one stream until it ends."""
        return asyncio.get_running_loop().create_task(self._serve(stream, headers))

    async def _serve(self, stream: Stream, headers: Headers) -> None:
        ending = ErrorCodes.INTERNAL_ERROR
        try:
            fields = [(name, name, value) for name, value in headers]
            if not dict(headers).get(b"content-type", b"").startswith(b"application/grpc"):
                raise RefusalError(505, "over HTTP/2 only gRPC is spoken here: use HTTP/1.1")
            found, revision = self._find(dict(headers), fields)
            await Call(stream, found, revision, fields, self._forwarded).run()
            ending = ErrorCodes.NO_ERROR
        except RefusalError as refusal:
            _refuse(stream, refusal)
            ending = ErrorCodes.NO_ERROR
        except (StreamLostError, TimeoutError):
            pass  # the reset says that what the client has is not whole
        finally:
            stream.close(ending)

    def _find(self, headers: dict[bytes, bytes], fields: Fields) -> tuple[Found, RevisionNow]:
        host, target = headers.get(b":authority", b""), headers.get(b":path", b"")
        port_of = self._port_of or headers.get(SERVICE_HEADER, b"").decode("latin-1")
        found = find_service(self._services, port_of, host, target, headers.get(b"authorization"))
        revision = found.service.choose(fields, found.tag)
        if revision is None:
            raise no_revision(found, fields)
        return found, revision


def _refuse(stream: Stream, refusal: RefusalError) -> None:
    if stream.lost is not None:
        return
    if refusal.status not in _STATUS:
        stream.send_head([(b":status", b"%d" % refusal.status), (b"x-error", quote(str(refusal)).encode())], end=True)
        return
    stream.send_head(
        [
            (b":status", b"200"),
            (b"content-type", b"application/grpc"),
            (b"grpc-status", b"%d" % _STATUS[refusal.status]),
            (b"grpc-message", quote(str(refusal), safe=" ',:;/").encode()),
        ],
        end=True,
    )


class Call:
    """One call of one client."""

    def __init__(self, client: Stream, found: Found, revision: RevisionNow, fields: Fields, forwarded: Headers) -> None:
        self._client = client
        self._route = found.service.route
        self._attempts = Attempts(found, revision, fields)
        self._headers = _onward(found, fields, forwarded, without_token=bool(self._route.tokens))
        self._kept: list[bytes] | None = []
        self._kept_bytes = 0
        self._ended = False
        self._answering = False
        self._status = 0

    async def run(self) -> None:
        """Have it answered. Raises RefusalError, StreamLostError, TimeoutError."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            while not await self._attempt():
                pass
        except RefusalError as refusal:
            self._status = refusal.status
            raise
        except asyncio.CancelledError:
            self._attempts.revision.tally.error("client")
            raise
        finally:
            self._attempts.release()
            self._attempts.revision.tally.ended(self._status, loop.time() - began)

    async def _attempt(self) -> bool:
        attempts, limits = self._attempts, self._route.timeouts
        backend = await attempts.next_backend()
        try:
            upstream = await connection_to(backend, limits.connect_seconds)
        except (OSError, ValueError):
            attempts.refused(backend)
            return False
        try:
            await self._once(upstream, backend)
        except StreamLostError as problem:
            self._failed(backend, "reset", unseen=problem.unseen)
            return False
        except TimeoutError:
            self._failed(backend, "timeout", unseen=False)
            return False
        return True

    def _failed(self, backend: BackendNow, kind: str, *, unseen: bool) -> None:
        if self._answering or self._client.lost is not None:
            self._attempts.revision.tally.error(kind)
            raise StreamLostError
        if unseen and self._kept is not None:
            self._attempts.refused(backend)
            return
        self._attempts.failed(backend, kind, safe=self._repeatable)

    @property
    def _repeatable(self) -> bool:
        return self._route.retries.repeatable and self._kept is not None

    async def _once(self, upstream: Peer, backend: BackendNow) -> None:
        stream = upstream.open(self._headers)
        loop = asyncio.get_running_loop()
        sending = loop.create_task(self._send(stream))
        try:
            await self._answer(stream, backend, sending)
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            if not sending.cancelled():
                sending.exception()  # the answer's side has seen it, too
            stream.close()

    # The request, on its way to the backend.

    async def _send(self, stream: Stream) -> None:
        idle = self._route.timeouts.idle_seconds
        for data in list(self._kept or ()):
            await stream.send(data, idle)
        while not self._ended:
            item = await self._client.take(idle)
            if isinstance(item, Piece):
                self._keep(item.data)
                try:
                    await stream.send(item.data, idle)
                finally:
                    self._client.taken(item)
            elif isinstance(item, End):
                self._ended = True
        stream.send_end()

    def _keep(self, data: bytes) -> None:
        if self._kept is not None and not self._answering:
            self._kept.append(data)
            self._kept_bytes += len(data)
            if self._kept_bytes > self._route.retries.body_bytes:
                self._kept = None

    # The answer, on its way to the client.

    async def _first(self, stream: Stream, sending: "asyncio.Task[None]") -> Head | Piece | End:
        """Wait for the first thing a backend says: as long as it may take once it has the whole request."""
        while True:
            try:
                return await stream.take(self._route.timeouts.request_seconds)
            except TimeoutError:
                if self._ended or sending.done():
                    raise

    async def _answer(self, stream: Stream, backend: BackendNow, sending: "asyncio.Task[None]") -> None:
        limits = self._route.timeouts
        item = await self._first(stream, sending)
        if not isinstance(item, Head):
            raise StreamLostError
        code = _code(item.headers)
        status = 200 if code is None else _http_status(code)
        if code == _UNAVAILABLE and self._attempts.may_repeat(503) and self._repeatable:
            raise StreamLostError
        following = await stream.take(limits.idle_seconds) if code is not None else None
        self._answering, self._kept = True, None
        ended = isinstance(following, End)
        self._client.send_head(_back(item.headers), end=ended)
        while not ended:
            item = following or await stream.take(limits.idle_seconds)
            following = None
            if isinstance(item, Piece):
                await self._client.send(item.data, limits.idle_seconds)
                stream.taken(item)
            elif isinstance(item, Head):
                code = _code(item.headers)
                status = status if code is None else _http_status(code)
                self._client.send_head(_back(item.headers), end=True)
                ended = True
            else:
                self._client.send_end()
                ended = True
        self._status = status
        self._attempts.answered(backend, status)


def _onward(found: Found, fields: Fields, forwarded: Headers, *, without_token: bool) -> Headers:
    dropped = _DROPPED | {b"authorization"} if without_token else _DROPPED
    pseudo = {b":path": found.target, b":scheme": b"http"}
    kept = [(lower, pseudo.get(lower, value)) for lower, _, value in fields if lower not in dropped]
    return [*kept, *forwarded]


def _back(headers: Headers) -> Headers:
    return [(name, value) for name, value in headers if name not in HOP_BY_HOP]


def _code(headers: Headers) -> int | None:
    """Return the code of gRPC in headers or trailers, if it is there."""
    text = next((value for name, value in headers if name == b"grpc-status"), b"")
    return int(text) if text.isdigit() else None


def _http_status(code: int) -> int:
    return _FAULTS.get(code, 400) if code else 200


async def connection_to(backend: BackendNow, seconds: float, made: Callable[[], Peer] = Peer) -> Peer:
    """Return the connection that all calls to a backend share, opened if there is none. Raises OSError."""
    known = backend.calls
    if isinstance(known, Peer) and not known.closing:
        return known
    if backend.connecting is None or backend.connecting.done():
        backend.connecting = asyncio.get_running_loop().create_task(_connect(backend, made))
    async with asyncio.timeout(seconds):
        await asyncio.shield(backend.connecting)
    assert isinstance(backend.calls, Peer)
    return backend.calls


async def _connect(backend: BackendNow, made: Callable[[], Peer]) -> None:
    loop, address = asyncio.get_running_loop(), backend.grpc_address
    if address.startswith("unix:"):
        _, backend.calls = await loop.create_unix_connection(made, address[5:])
    else:
        host, _, port = address.rpartition(":")
        _, backend.calls = await loop.create_connection(made, host.strip("[]"), int(port))
