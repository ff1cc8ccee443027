"""gRPC to a team's service. One channel carries all requests; a service that dies is noticed by pings.

A request is that of REST as everywhere in the client: the table of methods says which one asks the same.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import grpc
import msgspec

from gangline.errors import (
    GanglineError,
    InvalidInputError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnreachableError,
    WaitTimeoutError,
)
from gangline.sdk.transports.http import (
    CONNECT_SECONDS,
    SILENCE_SECONDS,
    check_fingerprint,
    is_this_machine,
    pinning_context,
)
from gangline.sdk.transports.interface import Request, Transport
from gangline.wire.rpc.messages import plain_from
from gangline.wire.rpc.methods import PREFIX, SERVED, Method, find_method, message_of
from gangline.wire.rpc.refusals import CODES, DETAILS, body_of

_CHUNK_BYTES = 64 * 1024
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
)
_STATUSES = {code: status for status, code in reversed(tuple(CODES.items()))}


class GrpcTransport:
    """Speaks to the service at ``grpc://host:port`` or ``grpcs://host:port``; see HttpTransport for the rest."""

    def __init__(self, address: str, *, token: Callable[[], str] | None = None, fingerprint: str = "") -> None:
        self._address = address
        self._host, self._port, self._encrypted = _place(address)
        self._token = token
        self._fingerprint = fingerprint
        self._lock = threading.Lock()
        self._channel: Any = None
        if token is not None and not self._encrypted and not is_this_machine(self._host):
            raise PermissionDeniedError(f"a token is not sent to {address} unencrypted; use grpcs://")

    @property
    def address(self) -> str:
        """The address as it was given."""
        return self._address

    def send(self, request: Request) -> "GrpcAnswer | RefusedAnswer":
        """Send a request; see Transport."""
        path = tuple(unquote(part) for part in request.path.removeprefix(PREFIX).strip("/").split("/"))
        method = find_method(request.method, path, request.query)
        if method is None:
            raise GanglineError(f"{request.method} {request.path} is not offered over gRPC; use the https:// address")
        body = request.body if isinstance(request.body, bytes) and not method.uploads else None
        try:
            message = message_of(method, path, request.query, body)
        except (ValueError, TypeError, OverflowError) as error:
            raise InvalidInputError(f"the request cannot be sent over gRPC: {error}") from error
        call = self._call(method, message, request)
        try:
            # Only a stream that is served begins with this; everything else is over with its answer.
            if method.streams and SERVED not in {key for key, _ in call.initial_metadata()}:
                raise call
            result = None if method.streams else call.result()
        except grpc.RpcError as error:
            details = _details_of(error)
            if details is None:
                raise self._broken(error, request.deadline) from error
            return RefusedAnswer(_STATUSES.get(error.code(), HTTPStatus.INTERNAL_SERVER_ERROR.value), details)
        return GrpcAnswer(self, method, call, result, request.deadline)

    def close(self) -> None:
        """Close the channel."""
        with self._lock:
            if self._channel is not None:
                self._channel.close()

    def _call(self, method: Method, message: Any, request: Request) -> Any:
        opening = () if self._token is None else (("authorization", f"Bearer {self._token()}"),)
        metadata = (*opening, *((name.lower(), value) for name, value in request.headers))
        codec = {
            "request_serializer": method.request.SerializeToString,
            "response_deserializer": method.answer.FromString,
        }
        timeout = _timeout(request.deadline, bounded=not (method.streams or method.uploads))
        channel = self._opened()
        if method.uploads:
            return channel.stream_unary(method.full_name, **codec).future(
                _parts(method, message, request.body), timeout, metadata
            )
        if method.streams:
            return channel.unary_stream(method.full_name, **codec)(message, timeout, metadata)
        return channel.unary_unary(method.full_name, **codec).future(message, timeout, metadata)

    def _opened(self) -> Any:
        with self._lock:
            if self._channel is None:
                target = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
                if not self._encrypted:
                    self._channel = grpc.insecure_channel(target, _OPTIONS)
                else:
                    credentials, name = self._credentials()
                    named = (("grpc.ssl_target_name_override", name),) if name else ()
                    self._channel = grpc.secure_channel(target, credentials, (*_OPTIONS, *named))
            return self._channel

    def _credentials(self) -> tuple[Any, str]:
        """Return whom to believe: the one certificate of the fingerprint, or those that an authority has signed."""
        if not self._fingerprint:
            paths: Any = ssl.get_default_verify_paths()  # its file may be None, whatever its type says
            found = paths.cafile
            if found is None:
                return grpc.ssl_channel_credentials(), ""
            with open(found, "rb") as roots:  # noqa: PTH123  # the path is a text of the ssl module's
                return grpc.ssl_channel_credentials(roots.read()), ""
        try:
            with _connected(pinning_context(), self._host, self._port) as wire:
                check_fingerprint(wire, self._fingerprint, self._address)
                certificate = ssl.DER_cert_to_PEM_cert(wire.getpeercert(binary_form=True) or b"")
            context = ssl.create_default_context(cadata=certificate)
            context.check_hostname = False
            with _connected(context, self._host, self._port) as wire:
                names: Any = (wire.getpeercert() or {}).get("subjectAltName", ())
        except OSError as error:
            raise UnreachableError(f"no service answers at {self._address}: {error}") from error
        return grpc.ssl_channel_credentials(certificate.encode()), str(names[0][1]) if names else self._host

    def _broken(self, error: Any, deadline: float | None) -> GanglineError:
        """Return what the platform raises for a call that failed before the service could answer."""
        code, said = error.code(), error.details()
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and deadline is not None and time.monotonic() >= deadline:
            return WaitTimeoutError("the time given to wait ran out")
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return UnauthenticatedError(said)
        if code is grpc.StatusCode.INVALID_ARGUMENT:
            return InvalidInputError(said)
        if code is grpc.StatusCode.UNAVAILABLE and "onnection refused" in said:
            gone = UnreachableError(f"no service answers at {self._address}")
            gone.__cause__ = ConnectionRefusedError()
            return gone
        return UnreachableError(f"the service at {self._address} does not answer: {said}")


class RefusedAnswer:
    """A refusal, as REST would have sent it."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    def read(self) -> bytes:
        """Return the body."""
        return self._body

    def lines(self) -> Iterator[bytes]:
        """Return the body, which is one line."""
        yield self._body

    def chunks(self) -> Iterator[bytes]:
        """Return the body, which is one piece."""
        yield self._body

    def close(self) -> None:
        """Nothing is held."""


class GrpcAnswer:
    """An answer: a message that is here, or messages that arrive."""

    def __init__(
        self, transport: GrpcTransport, method: Method, call: Any, result: Any, deadline: float | None
    ) -> None:
        self._transport = transport
        self._method = method
        self._call = call
        self._result = result
        self._deadline = deadline

    @property
    def status(self) -> int:
        """The HTTP status."""
        return HTTPStatus.OK.value

    def read(self) -> bytes:
        """Return the whole body and close."""
        if self._method.streams:
            return b"".join(self.chunks()) if self._method.downloads else b"\n".join(self.lines())
        return msgspec.json.encode(plain_from(self._result))

    def lines(self) -> Iterator[bytes]:
        """Return the lines as they arrive; see Answer."""
        if not self._method.streams:
            yield self.read()
            return
        for message in self._messages():
            yield message if isinstance(message, bytes) else msgspec.json.encode(plain_from(message))

    def chunks(self) -> Iterator[bytes]:
        """Return the body as it arrives; see Answer."""
        for message in self._messages():
            if isinstance(message, bytes):
                raise UnreachableError(f"the service at {self._transport.address} broke off a file")
            yield message.data

    def close(self) -> None:
        """Let go of the call."""
        self._call.cancel()

    def _messages(self) -> Iterator[Any]:
        """Return messages as they arrive; an error on the way is the last of them, as a line of its own."""
        try:
            yield from self._call
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.CANCELLED and self._call.cancelled():
                return
            details = _details_of(error)
            if details is None:
                raise self._transport._broken(error, self._deadline) from error  # noqa: SLF001  # the two are one
            yield details
        finally:
            self.close()


def _place(address: str) -> tuple[str, int, bool]:
    try:
        parts = urlsplit(address)
        if parts.scheme in ("grpc", "grpcs") and parts.hostname and parts.port:
            return parts.hostname, parts.port, parts.scheme == "grpcs"
    except ValueError:
        pass
    raise InvalidInputError(
        f"'{address}' is not an address of a service", expected="grpc://host:port or grpcs://host:port"
    )


def _timeout(deadline: float | None, *, bounded: bool) -> float | None:
    if deadline is None:
        return SILENCE_SECONDS if bounded else None
    if (remaining := deadline - time.monotonic()) <= 0:
        raise WaitTimeoutError("the time given to wait ran out")
    return remaining


def _details_of(error: Any) -> bytes | None:
    metadata = dict(error.trailing_metadata() or ())
    return body_of(metadata[DETAILS]) if DETAILS in metadata else None


def _parts(method: Method, first: Any, body: bytes | BinaryIO | None) -> Iterator[Any]:
    """Return the messages of an upload: what it is, then the file in parts."""
    yield first
    if isinstance(body, bytes):
        for start in range(0, len(body), _CHUNK_BYTES):
            yield method.request(chunk=body[start : start + _CHUNK_BYTES])
    elif body is not None:
        while chunk := body.read(_CHUNK_BYTES):
            yield method.request(chunk=chunk)


def _connected(context: ssl.SSLContext, host: str, port: int) -> ssl.SSLSocket:
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection((host, port), CONNECT_SECONDS)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


_conforms: type[Transport] = GrpcTransport
