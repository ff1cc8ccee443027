"""HTTP over a Unix socket or a network address, with the standard library alone.

Each request has its own connection: streams stay open for hours, threads share nothing, and on a local socket a
connection costs less than deciding whether an old one is still good.
"""

import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import SplitResult, urlencode, urlsplit

from gangline.errors import InvalidInputError, PermissionDeniedError, UnreachableError, WaitTimeoutError
from gangline.sdk.transport import Request, Transport

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 60.0
"""A service that says nothing for this long is taken for dead; streams say something at least every 15 seconds."""

_READ_BYTES = 64 * 1024
_USER_AGENT = "gangline"


class HttpTransport:
    """Speaks to the service at ``unix:/path``, ``http://host:port`` or ``https://host:port``."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._parts = _parts(address)

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
                wire.settimeout(_patience(request.deadline))
                _send(connection, request, target)
                return HttpAnswer(connection, wire, connection.getresponse(), self._address, request.deadline)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Nothing is held between requests."""

    def _connection(self) -> http.client.HTTPConnection:
        if self._parts.scheme == "unix":
            return _UnixConnection(Path(self._parts.path))
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=CONNECT_SECONDS, context=ssl.create_default_context()
            )
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
        try:
            while chunk := self._read_some():
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line for line in whole if line)
            if rest:
                yield rest
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
        f"'{address}' is no address of a service", expected="unix:/path, http://host:port or https://host:port"
    ) from problem


def _send(connection: http.client.HTTPConnection, request: Request, target: str) -> None:
    # A service that refuses before it has read all of the body closes its end; its answer says why.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.request(request.method, target, body=request.body, headers={"User-Agent": _USER_AGENT})


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
    except PermissionError as error:
        raise PermissionDeniedError(f"the service at {address} belongs to somebody else") from error
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"the connection to {address} broke: {error}") from error


_conforms: type[Transport] = HttpTransport
