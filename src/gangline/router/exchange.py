"""One request over HTTP/1 and its answer: who gets it, what is tried again, and the bytes in both directions."""

import asyncio

from gangline.router.messages import (
    HOP_BY_HOP,
    IDEMPOTENT,
    REPLACED,
    AnswerHead,
    Chunked,
    Fields,
    MessageError,
    RequestHead,
    UntilClose,
    end_of_head,
    read_answer,
    write_answer,
    write_request,
)
from gangline.router.services import (
    BackendNow,
    ChooseAgainError,
    Found,
    RevisionNow,
    Services,
    UnavailableError,
    tag_of,
)
from gangline.router.wires import Sweep, Wire

_DROPPED = HOP_BY_HOP | REPLACED
_DROPPED_WITH_TOKEN = _DROPPED | {b"authorization"}
_UNHEALTHY = frozenset((502, 503, 504))
_REASONS = {
    400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 408: "Request Timeout", 413: "Content Too Large",
    431: "Request Header Fields Too Large", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable",
    504: "Gateway Timeout", 505: "HTTP Version Not Supported",
}  # fmt: skip


class RefusalError(Exception):
    """What the router answers itself."""

    def __init__(self, status: int, problem: str, headers: bytes = b"") -> None:
        super().__init__(problem)
        self.status = status
        self.headers = headers


class BackendLostError(Exception):
    """A backend went away, was too slow or spoke nonsense before its answer was whole."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def refusal_bytes(status: int, problem: str, headers: bytes = b"", *, body: bool = True, keep: bool = False) -> bytes:
    """Write an answer of the router itself, in the form of the model server's errors."""
    text = b'{"error":"%s"}' % problem.replace("\\", "/").replace('"', "'").encode()
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    ending = b"\r\n" if keep else b"Connection: close\r\n\r\n"
    return head.encode() + headers + ending + (text if body else b"")


async def connect(address: str, sweep: Sweep, seconds: float) -> Wire:
    """Open a connection to a backend. Raises OSError, TimeoutError among them."""
    loop = asyncio.get_running_loop()

    def protocol() -> Wire:
        return Wire(sweep)

    async with asyncio.timeout(seconds):
        if address.startswith("unix:"):
            return (await loop.create_unix_connection(protocol, address[5:]))[1]
        host, _, port = address.rpartition(":")
        return (await loop.create_connection(protocol, host.strip("[]"), int(port)))[1]


def find_service(services: Services, port_of: str, host: bytes, target: bytes, authorization: bytes | None) -> Found:
    """Find the service of a request and check that its sender may use it. Raises RefusalError."""
    found = services.find(host, target)
    if port_of:
        service = services.services.get(port_of)
        same = found is not None and found.service is service and not found.prefix
        tag = found.tag if same and found is not None else ""
        found = Found(service, tag, target) if service is not None else None
    if found is None:
        raise RefusalError(404, "no such service: name one as NAME.localhost or /services/NAME/")
    if not found.service.admits(authorization):
        raise RefusalError(401, "a token of this service is needed", b"WWW-Authenticate: Bearer\r\n")
    return found


def no_revision(found: Found, fields: Fields) -> RefusalError:
    """Say why no revision can be chosen."""
    tag, name = found.tag or tag_of(fields), found.service.route.name
    if tag:
        return RefusalError(404, f"service {name}: no revision is tagged {tag!r}")
    return RefusalError(503, f"service {name}: no revision has any traffic")


class Attempts:
    """Gets a backend for a request, again and again as far as that is safe. The same for HTTP/1 and HTTP/2."""

    def __init__(self, found: Found, revision: RevisionNow, fields: Fields) -> None:
        self._loop = asyncio.get_running_loop()
        self._fields = fields
        self._tag = found.tag
        self.route = found.service.route
        self.service = found.service
        self.revision = revision
        self.backend: BackendNow | None = None
        self._tried: list[BackendNow] = []
        self._made = 0
        self._until = 0.0
        self.service.budget.earn()

    async def next_backend(self) -> BackendNow:
        """Take a backend, or wait for one. Raises RefusalError."""
        backend = self.revision.pick(self._loop.time(), self._tried)
        while backend is None:
            if not self.service.revisions:
                raise RefusalError(404, f"service {self.route.name} is gone")
            other = None if self.revision.alive else self.service.instead_of(self.revision, self._fields, self._tag)
            if other is not None:
                self.revision = other
                backend = other.pick(self._loop.time())
                continue
            self._until = self._until or self._loop.time() + self.route.hold.seconds
            try:
                backend = await self.revision.hold(self._until)
            except ChooseAgainError:
                self.revision = self.service.choose(self._fields, self._tag) or self.revision
                backend = self.revision.pick(self._loop.time())
            except UnavailableError:
                self.revision.tally.error("unavailable")
                problem = f"service {self.route.name} has no replica that could answer"
                raise RefusalError(503, problem, b"Retry-After: 1\r\n") from None
        self.backend = backend
        return backend

    def release(self) -> None:
        """Give the backend back, if there is one."""
        if self.backend is not None:
            backend, self.backend = self.backend, None
            self.revision.release(backend)

    def refused(self, backend: BackendNow) -> None:
        """No connection came about: another try harms nobody. Raises RefusalError when it is time to give up."""
        now = self._loop.time()
        self._until = self._until or now + self.route.hold.seconds
        self.revision.tally.error("connect")
        backend.health.refused(now)
        self.release()
        if now >= self._until:
            raise RefusalError(503, f"no replica of service {self.route.name} accepts connections")
        self._tried.append(backend)

    def failed(self, backend: BackendNow, kind: str, *, safe: bool) -> None:
        """An attempt failed with nothing said to the client. Returns if it may be repeated, or raises RefusalError."""
        now = self._loop.time()
        self._made += 1
        self.revision.tally.error(kind)
        backend.health.failed(now, self.route.ejection, [each.health for each in self.revision.backends.values()])
        self.release()
        self._tried.append(backend)
        if safe and self._made < self.route.retries.attempts and self.service.budget.spend(now):
            self.revision.tally.retries += 1
            return
        if kind == "timeout":
            raise RefusalError(504, f"service {self.route.name} did not answer in time")
        raise RefusalError(502, f"a replica of service {self.route.name} ended before it answered")

    def may_repeat(self, status: int) -> bool:
        """Whether another backend is worth a try after this answer: only if one says that it cannot serve now."""
        others = [each for each in self.revision.backends.values() if each is not self.backend and not each.draining]
        return status == 503 and bool(others) and self._made + 1 < self.route.retries.attempts

    def answered(self, backend: BackendNow, status: int) -> None:
        """A backend began to answer."""
        if status in _UNHEALTHY:
            rules = self.route.ejection
            others = [each.health for each in self.revision.backends.values()]
            backend.health.failed(self._loop.time(), rules, others)
        else:
            backend.health.succeeded()
        if status >= 500:
            self.revision.tally.error("status")


class Exchange:
    """One request of one client."""

    def __init__(self, client: Wire, head: RequestHead, found: Found, revision: RevisionNow, sweep: Sweep) -> None:
        self._client = client
        self._head = head
        self._found = found
        self._sweep = sweep
        self._route = found.service.route
        self._attempts = Attempts(found, revision, head.fields)
        self._kept: bytearray | None = bytearray()
        self._flowing: asyncio.Task[None] | None = None
        self._answering = False
        self.status = 0
        self.keep = head.keep_alive

    @property
    def revision(self) -> RevisionNow:
        """The revision that the request was for in the end."""
        return self._attempts.revision

    async def run(self, prefix: bytes) -> None:
        """Have the request answered. ``prefix`` are header lines for the backend. Raises RefusalError."""
        dropped = _DROPPED_WITH_TOKEN if self._route.tokens else _DROPPED
        head = write_request(self._head, self._found.target, prefix, dropped)
        attempts = self._attempts
        try:
            while not await self._attempt(head):
                pass
        finally:
            attempts.release()

    async def _attempt(self, head: bytes) -> bool:
        attempts, loop = self._attempts, asyncio.get_running_loop()
        backend = await attempts.next_backend()
        upstream = backend.connection(loop.time())
        if upstream is None:
            try:
                upstream = await connect(backend.address, self._sweep, self._route.timeouts.connect_seconds)
            except (OSError, ValueError):
                attempts.refused(backend)
                return False
        reusable = False
        try:
            reusable = await self._once(upstream, head, backend)
        except RefusalError:
            if not self._answering:
                raise
            self._client.abort()
        except (BackendLostError, TimeoutError, MessageError) as problem:
            kind = problem.kind if isinstance(problem, BackendLostError) else "reset"
            kind = "timeout" if isinstance(problem, TimeoutError) else kind
            if self._answering:
                attempts.revision.tally.error(kind)
                self._client.abort()  # the client must see that its answer is not whole
                return True
            attempts.failed(backend, kind, safe=self._repeatable())
            return False
        finally:
            await self._stop_flow()
            if reusable:
                backend.give_back(upstream, loop.time())
            else:
                upstream.abort() if not upstream.half_open else upstream.close()
        return True

    def _repeatable(self) -> bool:
        """Whether nobody is harmed if a backend has begun with this request already, and all of it is still here."""
        may = self._route.retries.repeatable or self._head.method in IDEMPOTENT
        return may and self._kept is not None and not self._client.lost

    async def _stop_flow(self) -> None:
        if self._flowing is not None:
            flowing, self._flowing = self._flowing, None
            flowing.cancel()
            await asyncio.wait([flowing])
            if not flowing.cancelled():
                flowing.exception()

    async def _once(self, upstream: Wire, head: bytes, backend: BackendNow) -> bool:
        """Send the request to one backend and its answer to the client; return whether the connection can be reused."""
        body, kept = self._head.body, self._kept
        if body.done:
            upstream.write(head + self._framed(bytes(kept), last=True) if kept else head + self._ending())
        else:
            upstream.write(head + (self._framed(bytes(kept)) if kept else b""))
            if self._client.buffer:
                self._pass_on(upstream)
            if not body.done:
                self._flowing = asyncio.get_running_loop().create_task(self._flow(upstream))
        answer = await self._answer_head(upstream)
        if answer.status == 101:
            await self._tunnel(upstream, answer, backend)
            return False
        if self._attempts.may_repeat(answer.status) and self._repeatable() and self._flowing is None:
            raise BackendLostError("status")
        self._attempts.answered(backend, answer.status)
        await self._answer(upstream, answer)
        if self._flowing is not None and not self._flowing.done():
            self.keep = False
            return False
        return answer.keep_alive and not upstream.buffer and self._head.body.done

    # The request's body, on its way to the backend.

    def _framed(self, piece: bytes, *, last: bool = False) -> bytes:
        if not isinstance(self._head.body, Chunked):
            return piece
        return b"%x\r\n%s\r\n%s" % (len(piece), piece, b"0\r\n\r\n" if last else b"")

    def _ending(self) -> bytes:
        return b"0\r\n\r\n" if isinstance(self._head.body, Chunked) else b""

    def _pass_on(self, upstream: Wire) -> None:
        try:
            piece = self._head.body.take(self._client.buffer)
        except MessageError as problem:  # the client's fault, not the backend's
            raise RefusalError(problem.status, str(problem)) from problem
        if self._kept is not None:
            self._kept = None if len(self._kept) + len(piece) > self._route.retries.body_bytes else self._kept
            if self._kept is not None:
                self._kept += piece
        if piece:
            upstream.write(self._framed(piece, last=self._head.body.done))
        elif self._head.body.done:
            upstream.write(self._ending())

    async def _flow(self, upstream: Wire) -> None:
        """Send the rest of the body as it comes."""
        client, limits = self._client, self._route.timeouts
        loop = asyncio.get_running_loop()
        try:
            while not self._head.body.done:
                if not client.buffer and not await client.more(limits.idle_seconds):
                    return
                self._pass_on(upstream)
                await upstream.flow(limits.idle_seconds)
                if not upstream.lost:
                    upstream.deadline = loop.time() + limits.request_seconds
        except RefusalError as refusal:
            upstream.interrupt(refusal)
        except TimeoutError:
            upstream.interrupt(BackendLostError("client"))

    # The answer, on its way to the client.

    async def _answer_head(self, upstream: Wire) -> AnswerHead:
        seen = 0
        while True:
            end = end_of_head(upstream.buffer, max(0, seen - 3))
            if end < 0:
                seen = len(upstream.buffer)
                if not await upstream.more(self._route.timeouts.request_seconds):
                    raise BackendLostError("reset")
                continue
            answer = read_answer(bytes(upstream.buffer[:end]), self._head.method)
            del upstream.buffer[:end]
            if answer.status >= 200 or (answer.status == 101 and self._head.upgrade):
                return answer
            if answer.status == 101:
                raise MessageError("an upgrade that nobody asked for")
            if self._head.modern:
                self._client.write(write_answer(answer, b""))
            seen = 0

    async def _answer(self, upstream: Wire, answer: AnswerHead) -> None:
        client, body, idle = self._client, answer.body, self._route.timeouts.idle_seconds
        self.status = answer.status
        chunked = not body.done and isinstance(body, Chunked | UntilClose) and self._head.modern
        until_close = not body.done and isinstance(body, Chunked | UntilClose) and not self._head.modern
        self.keep = self.keep and not until_close
        framing = b"Transfer-Encoding: chunked\r\n" if chunked else b""
        if not self.keep:
            framing += b"Connection: close\r\n"
        elif not self._head.modern:
            framing += b"Connection: keep-alive\r\n"
        out = write_answer(answer, framing)
        while True:
            piece = body.take(upstream.buffer) if upstream.buffer and not body.done else b""
            if piece:
                out += b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece
            if body.done:
                break
            if out:
                self._answering = True
                client.write(out)
                out = b""
                if client.blocked:
                    await client.flow(idle)
            if not upstream.buffer and not await upstream.more(idle):
                if isinstance(body, UntilClose):
                    break
                raise BackendLostError("reset")
        client.write(out + b"0\r\n\r\n" if chunked else out)
        if client.blocked:
            await client.flow(idle)

    # Upgraded connections.

    async def _tunnel(self, upstream: Wire, answer: AnswerHead, backend: BackendNow) -> None:
        """Pass bytes in both directions until one side ends, then what is left of the other."""
        client, idle = self._client, self._route.timeouts.idle_seconds
        self._attempts.answered(backend, answer.status)
        self.status, self.keep, self._answering = answer.status, False, True
        client.half_open = upstream.half_open = True
        client.write(write_answer(answer, b"Connection: Upgrade\r\nUpgrade: " + self._head.upgrade + b"\r\n"))
        loop = asyncio.get_running_loop()
        last = [loop.time()]
        ways = [loop.create_task(_pour(*way, idle, last)) for way in ((client, upstream), (upstream, client))]
        try:
            await asyncio.wait(ways)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)


async def _pour(source: Wire, sink: Wire, idle_seconds: float, last: list[float]) -> None:
    """Pass on until the source has ended. ``last`` is when either direction was used: one may be quiet alone."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            if source.buffer:
                last[0] = loop.time()
                sink.write(bytes(source.buffer))
                source.buffer.clear()
                await sink.flow(idle_seconds)
            elif not await source.more(max(0.0, last[0] + idle_seconds - loop.time())):
                break
        except TimeoutError:
            if not sink.blocked and loop.time() - last[0] < idle_seconds:
                continue
            source.close()
            sink.close()
            return
    if sink.transport.can_write_eof() and not sink.transport.is_closing():
        sink.transport.write_eof()
    else:
        sink.close()
