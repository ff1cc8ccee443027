"""Sends requests to one API server: TLS, credentials, retries. Knows nothing of objects.

``KubeClient`` is its only caller. Calls and streams use separate connection pools, so that watches that stay open
never take the last connection from a call.
"""

import asyncio
import random
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gangline.kube.credentials import ClientCertificate, Credential
from gangline.kube.errors import ApiError, KubeconfigError, UnauthorizedError, UnreachableError, error_from_answer
from gangline.kube.kubeconfig import ClusterAccess
from gangline.kube.requests import Request
from gangline.model import Backoff

_CALL_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=5)
_NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError)
_IDLE_CONNECTION_SECONDS = 60
"""A new connection costs both sides several milliseconds of processor time; the server hangs up after 90 seconds."""
_KEEPALIVE_SECONDS = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""When a silent connection is probed; systems other than Linux know only some of these."""
_CLOSE_ROUNDS, _CLOSE_PAUSE_SECONDS = 200, 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to wait between attempts: doubling, jittered, and never less than the server asked for."""

    attempts: int = 7
    first_seconds: float = 0.1
    longest_seconds: float = 3.0
    patience_seconds: float = 30.0
    """The longest the server may ask us to wait before we hand its answer to the caller instead."""

    def delay(self, attempt: int, *, jitter: float) -> float:
        """Wait this long after the given attempt (counted from zero); ``jitter`` is in 0..1."""
        return Backoff(self.first_seconds, self.longest_seconds).pause(attempt + 1) * (0.5 + jitter / 2)

    def after(
        self, error: ApiError | UnreachableError, request: Request, attempt: int, *, jitter: float
    ) -> float | None:
        """Decide whether and when to send again; None means the error is final.

        A 429 was never carried out, so any request may be repeated. A 5xx or a lost connection leaves open whether it
        was, so only idempotent ones are.
        """
        if attempt + 1 >= self.attempts or not _worth_repeating(error, request):
            return None
        asked = (error.retry_after_seconds or 0.0) if isinstance(error, ApiError) else 0.0
        return None if asked > self.patience_seconds else max(asked, self.delay(attempt, jitter=jitter))


def _worth_repeating(error: ApiError | UnreachableError, request: Request) -> bool:
    if isinstance(error, UnreachableError):
        return request.idempotent or isinstance(error.__cause__, ConnectionRefusedError | aiohttp.ClientConnectorError)
    return error.status == 429 or (error.status in (500, 502, 503, 504) and request.idempotent)


class Transport:
    """One API server, as one user."""

    def __init__(
        self, access: ClusterAccess, *, connections: int, retries: RetryPolicy, randomness: random.Random
    ) -> None:
        self._access = access
        self._url = URL(access.server)
        self._retries = retries
        self._randomness = randomness
        self._tls = _TlsContexts(access)
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._calls = _session(limit=connections, sockets=self._sockets)
        self._streams = _session(limit=0, sockets=self._sockets)

    async def close(self) -> None:
        """Close every connection."""
        await self._calls.close()
        await self._streams.close()
        # A stream that was left says goodbye by TLS and waits for the answer, longer than this loop may have to live.
        for _ in range(_CLOSE_ROUNDS):
            left = [made for made in self._sockets if made.fileno() >= 0]
            if not left:
                return
            for made in left:
                with suppress(OSError):
                    made.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(_CLOSE_PAUSE_SECONDS)

    async def call(self, request: Request) -> bytes:
        """Send a request and return the body of the answer, repeating it while that is safe and worthwhile."""
        attempt = 0
        while True:
            try:
                async with self._send(self._calls, request, _CALL_TIMEOUT) as response:
                    return await self._read(response)
            except (ApiError, UnreachableError) as error:
                delay = self._retries.after(error, request, attempt, jitter=self._randomness.random())
                if delay is None:
                    raise
            await asyncio.sleep(delay)
            attempt += 1

    @asynccontextmanager
    async def stream(
        self, request: Request, *, quiet_seconds: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a request whose answer goes on; yields its chunks. Raises as ``call`` does, but never repeats."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=quiet_seconds)
        async with self._send(self._streams, request, timeout) as response:
            yield self._chunks(response)

    @asynccontextmanager
    async def websocket(
        self, request: Request, *, protocols: tuple[str, ...]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
        """Upgrade a request to a web socket."""
        credential = await self._access.credentials.current()
        connecting = self._streams.ws_connect(
            self._address(request),
            headers=self._headers(replace(request, accept="*/*"), credential),
            protocols=protocols,
            max_msg_size=0,
            heartbeat=30,
            **self._options(credential),
        )
        try:
            socket_ = await connecting
        except aiohttp.WSServerHandshakeError as error:
            raise await self._handshake_error(request, error) from error
        except _NO_ANSWER as error:
            raise self._unreachable(error) from error
        async with socket_:
            yield socket_

    @asynccontextmanager
    async def _send(
        self, session: aiohttp.ClientSession, request: Request, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send once; a refused credential is renewed and tried once more."""
        try:
            response = await self._request(session, request, timeout)
            if response.status == 401:
                response.release()
                self._access.credentials.forget()
                response = await self._request(session, request, timeout)
        except _NO_ANSWER as error:
            raise self._unreachable(error) from error
        async with response:
            if response.status >= 400:
                raise error_from_answer(
                    response.status, await self._read(response), retry_after_seconds=_retry_after(response.headers)
                )
            yield response

    async def _request(
        self, session: aiohttp.ClientSession, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        credential = await self._access.credentials.current()
        return await session.request(
            request.method,
            self._address(request),
            headers=self._headers(request, credential),
            data=request.body,
            timeout=timeout,
            allow_redirects=False,
            **self._options(credential),
        )

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        try:
            return await response.read()
        except _NO_ANSWER as error:
            raise self._unreachable(error) from error

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except _NO_ANSWER as error:
            raise self._unreachable(error) from error

    async def _handshake_error(self, request: Request, error: aiohttp.WSServerHandshakeError) -> ApiError:
        """Ask again without the upgrade: the refusal of a web socket carries no body that says why."""
        if error.status == 401:
            self._access.credentials.forget()
            return UnauthorizedError("the credential is not accepted", status=401, reason="Unauthorized")
        try:
            async with self._send(self._calls, request, _CALL_TIMEOUT):
                pass
        except ApiError as refusal:
            if refusal.status == error.status:
                return refusal
        return error_from_answer(error.status, error.message.encode())

    def _address(self, request: Request) -> URL:
        # The server may live below a path (as behind a management proxy), which must be kept.
        return self._url.joinpath(request.path.lstrip("/"), encoded=True).with_query(list(request.query))

    def _headers(self, request: Request, credential: Credential) -> CIMultiDict[str]:
        # Compression costs the server and us more than a cluster's own network gains.
        headers = CIMultiDict({"Accept": request.accept, "Accept-Encoding": "identity"})
        headers.extend(self._access.impersonation)
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if credential.token:
            headers["Authorization"] = f"Bearer {credential.token}"
        return headers

    def _options(self, credential: Credential) -> dict[str, Any]:
        options: dict[str, Any] = {"proxy": self._access.proxy}
        if self._url.scheme == "https":
            options |= {"ssl": self._tls.get(credential.certificate), "server_hostname": self._access.server_name}
        return options

    def _unreachable(self, error: BaseException) -> UnreachableError:
        problem = "timed out" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        return UnreachableError(self._access.server, problem)


class _TlsContexts:
    """One TLS context per client certificate, so that a renewed certificate gets connections of its own."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._certificate: ClientCertificate | None = None
        self._context: ssl.SSLContext | None = None

    def get(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        if self._context is None or certificate != self._certificate:
            self._context = self._build(certificate)
            self._certificate = certificate
        return self._context

    def _build(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        try:
            authority = self._access.authority.decode("ascii") if self._access.authority else None
            context = ssl.create_default_context(cadata=authority)
            if certificate is not None:
                _load_certificate(context, certificate)
        except (ssl.SSLError, UnicodeError) as error:
            raise KubeconfigError(f"the certificates for {self._access.server} cannot be used: {error}") from error
        # Kubernetes itself accepts authorities without key identifiers, and many clusters have one.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self._access.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Load from a private file: the TLS library reads client keys from files only."""
    with tempfile.TemporaryDirectory(prefix="gangline-") as folder:
        file = Path(folder) / "client.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate.chain + b"\n" + certificate.key)
        context.load_cert_chain(file)


def _session(*, limit: int, sockets: WeakSet[socket.socket]) -> aiohttp.ClientSession:
    def make_socket(address: tuple[Any, ...]) -> socket.socket:
        made = _keepalive_socket(address)
        sockets.add(made)
        return made

    connector = aiohttp.TCPConnector(
        limit=limit, socket_factory=make_socket, keepalive_timeout=_IDLE_CONNECTION_SECONDS
    )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


def _keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket that notices within half a minute when the other machine is gone without a word."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in _KEEPALIVE_SECONDS.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("Retry-After", "")
    return float(value) if value.isdigit() else None
