"""HTTP over a Unix socket or a network address, with the standard library alone.

Each request has its own connection: streams stay open for hours, threads share nothing, and on a local socket a
connection costs less than deciding whether an old one is still good.
"""

import hashlib
import hmac
import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import SplitResult, urlencode, urlsplit

from gangline.errors import InvalidInputError, PermissionDeniedError, UnreachableError, WaitTimeoutError
from gangline.sdk.transports.interface import Request, Transport

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 60.0
"""A service that says nothing for this long is taken for dead; streams say something at least every 15 seconds."""

_READ_BYTES = 64 * 1024
_USER_AGENT = "gangline"


class HttpTransport:
    """Speaks to the service at ``unix:/path``, ``http://host:port`` or ``https://host:port``.

    ``token`` returns what opens the service, each time anew. With ``fingerprint``, the certificate is believed that has
    it and no other; without, those that an authority of this machine has signed.
    """

    def __init__(self, address: str, *, token: Callable[[], str] | None = None, fingerprint: str = "") -> None:
        self._address = address
        self._parts = _parts(address)
        self._token = token
        self._fingerprint = fingerprint
        if token is not None and self._parts.scheme == "http" and not is_this_machine(self._parts.hostname or ""):
            raise PermissionDeniedError(f"a token is not sent to {address} unencrypted; use https://")

    @property
    def address(self) -> str:
        """The address as it was given."""
        return self._address

    def send(self, request: Request) -> "HttpAnswer":
        """Send a request; see Transport."""
        connection = self._connection()
        target = request.path + (f"?{urlencode(request.query)}" if request.query else "")
        try:
            with _translated(self._address, request.deadline):
                connection.connect()
                wire: socket.socket = connection.sock
                if self._fingerprint:
                    check_fingerprint(wire, self._fingerprint, self._address)
                wire.settimeout(_patience(request.deadline))
                _send(connection, request, target, self._headers(request))
                return HttpAnswer(connection, wire, connection.getresponse(), self._address, request.deadline)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Nothing is held between requests."""

    def _headers(self, request: Request) -> dict[str, str]:
        opening = {} if self._token is None else {"Authorization": f"Bearer {self._token()}"}
        return {"User-Agent": _USER_AGENT, **opening, **dict(request.headers)}

    def _connection(self) -> http.client.HTTPConnection:
        if self._parts.scheme == "unix":
            return _UnixConnection(Path(self._parts.path))
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = pinning_context() if self._fingerprint else ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=context)
        return http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)


class HttpAnswer:
    """An answer on its own connection."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        wire: socket.socket,
        response: http.client.HTTPResponse,
        address: str,
        deadline: float | None,
    ) -> None:
        self._connection = connection
        self._wire = wire
        self._response = response
        self._address = address
        self._deadline = deadline

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status

    def read(self) -> bytes:
        """Return the whole body and close."""
        try:
            with _translated(self._address, self._deadline):
                return self._response.read()
        finally:
            self.close()

    def lines(self) -> Iterator[bytes]:
        """Return the lines as they arrive; see Answer."""
        rest = b""
        with closing(self.chunks()) as chunks:
            for chunk in chunks:
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line for line in whole if line)
            if rest:
                yield rest

    def chunks(self) -> Generator[bytes, None, None]:
        """Return the body as it arrives; see Answer."""
        try:
            while chunk := self._read_some():
                yield chunk
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._response.close()
        self._connection.close()

    def _read_some(self) -> bytes:
        with _translated(self._address, self._deadline):
            self._wire.settimeout(_patience(self._deadline))
            return self._response.read1(_READ_BYTES)


def is_this_machine(host: str) -> bool:
    """Whether a host is this very machine, to which anything may be said unencrypted."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=CONNECT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _parts(address: str) -> SplitResult:
    problem: ValueError | None = None
    try:
        parts = urlsplit(address)
        place = parts.path if parts.scheme == "unix" else parts.hostname
        # Reading the port refuses what is none.
        if parts.scheme in ("unix", "http", "https") and place and (parts.port is None or parts.port > 0):
            return parts
    except ValueError as error:
        problem = error
    raise InvalidInputError(
        f"'{address}' is not an address of a service", expected="unix:/path, http://host:port or https://host:port"
    ) from problem


def pinning_context() -> ssl.SSLContext:
    """Return what accepts any certificate, for whoever compares its fingerprint before anything is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def fingerprint_of(wire: socket.socket) -> str:
    """Return the SHA-256 of the certificate at the other end."""
    certificate = wire.getpeercert(binary_form=True) if isinstance(wire, ssl.SSLSocket) else None
    return hashlib.sha256(certificate or b"").hexdigest()


def check_fingerprint(wire: socket.socket, wanted: str, address: str) -> None:
    """Refuse to say anything to a server that has another certificate than at the login."""
    if not hmac.compare_digest(fingerprint_of(wire), wanted):
        raise PermissionDeniedError(
            f"the service at {address} has another certificate than when you logged in; if it was replaced on "
            "purpose, log in again"
        )


def _send(connection: http.client.HTTPConnection, request: Request, target: str, headers: dict[str, str]) -> None:
    # A service that refuses before it has read all of the body closes its end; its answer says why.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.request(request.method, target, body=request.body, headers=headers)


def _patience(deadline: float | None) -> float:
    if deadline is None:
        return SILENCE_SECONDS
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise WaitTimeoutError("the time given to wait ran out")
    return min(SILENCE_SECONDS, remaining)


@contextmanager
def _translated(address: str, deadline: float | None) -> Iterator[None]:
    """Turn what sockets raise into what the platform raises."""
    try:
        yield
    except TimeoutError as error:
        if deadline is not None and time.monotonic() >= deadline:
            raise WaitTimeoutError("the time given to wait ran out") from error
        raise UnreachableError(f"the service at {address} does not answer") from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise UnreachableError(f"no service answers at {address}") from error
    except ssl.SSLCertVerificationError as error:
        hint = "if it has a certificate of its own, 'gangline login' pins that"
        raise PermissionDeniedError(
            f"the certificate of {address} is not trusted ({error.verify_message}); {hint}"
        ) from error
    except PermissionError as error:
        raise PermissionDeniedError(f"the service at {address} belongs to somebody else") from error
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"the connection to {address} broke: {error}") from error


_conforms: type[Transport] = HttpTransport
