"""The one small interface between the client and the wire.

A transport sends a request and returns the answer's status and body as a stream; it knows no job and no error of
the platform but UnreachableError (nobody answers) and WaitTimeoutError (the deadline given with the request passed).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. ``deadline`` is on the monotonic clock; None lets each single wait take the transport's limit."""

    method: str
    path: str
    query: Query = ()
    body: bytes | BinaryIO | None = None
    deadline: float | None = None
    headers: Query = ()


class Answer(Protocol):
    """An answer whose body is still to be read. Read all of it, or close it."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    def read(self) -> bytes:
        """Return the whole body and close."""
        ...

    def lines(self) -> Iterator[bytes]:
        """Return the lines of the body as they arrive, empty ones left out, and close at their end."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """Return the body as it arrives, and close at its end."""
        ...

    def close(self) -> None:
        """Let go of the connection; more than once does no harm."""
        ...


class Transport(Protocol):
    """Carries requests to one service. Calls from several threads do not disturb each other."""

    @property
    def address(self) -> str:
        """Where the service is, for a person to read."""
        ...

    def send(self, request: Request) -> Answer:
        """Send a request and return when the answer begins."""
        ...

    def close(self) -> None:
        """Release what the transport holds; it is not used afterwards."""
        ...
