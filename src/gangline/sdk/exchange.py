"""One question, one answer: paths and queries written, refusals raised, streams read line by line."""

import operator
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from typing import BinaryIO, SupportsIndex, TypeVar
from urllib.parse import quote

import msgspec

from gangline.errors import InvalidInputError, NotFoundError, UnreachableError
from gangline.sdk.transports.interface import Answer, Query, Request, Transport
from gangline.sdk.transports.reconnecting import Reconnection, reconnected
from gangline.wire import codec, error_from_body

T = TypeVar("T")

_ERROR_LINE = b'{"error":'
_VERSION = "api/v1"


class Exchange:
    """Asks a service over a transport. Knows HTTP and the shape of refusals, but no verb of the platform."""

    def __init__(self, transport: Transport, reconnection: Reconnection | None = None) -> None:
        self._transport = transport
        self._reconnection = reconnection
        """Waits for a service that went away; None for one of this process, which only goes away with us."""

    @property
    def address(self) -> str:
        """Where the service is."""
        return self._transport.address

    def call(
        self, method: str, path: tuple[str, ...], query: Query = (), body: bytes | BinaryIO | None = None
    ) -> bytes:
        """Return the body of the answer, or raise the error it describes."""
        answer = self._transport.send(Request(method=method, path=_written(path), query=query, body=body))
        content = answer.read()
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise error_from_body(content, answer.status)
        return content

    def ask(
        self,
        kind: type[T],
        method: str,
        path: tuple[str, ...],
        query: Query = (),
        body: bytes | BinaryIO | None = None,
    ) -> T:
        """Return the answer as a value of that type."""
        return _read(kind, self.call(method, path, query, body))

    def follow(
        self, kind: type[T], path: tuple[str, ...], query: Query = (), deadline: float | None = None
    ) -> Iterator[T]:
        """Return the values of a stream as they come; a refusal is raised now, one on the way when it comes."""
        return (_read(kind, line) for line in self._stream(path, query, deadline))

    def watch(
        self, kind: type[T], path: tuple[str, ...], query: Query = (), *, deadline: float | None = None
    ) -> Iterator[T]:
        """Return what is at a path as it is and after every change, and once more after each gap, until it is gone."""
        again = partial(self.follow, kind, path, (*query, *query_of(watch=True)), deadline)
        return self.reconnected(again(), again=again, over=lambda: not self._answers(path), deadline=deadline)

    def reconnected(
        self,
        stream: Iterator[T],
        *,
        again: Callable[[], Iterator[T]],
        over: Callable[[], bool],
        deadline: float | None = None,
    ) -> Iterator[T]:
        """Return the items of a stream and of its continuations after each gap, until it is over."""
        if self._reconnection is None:
            return stream
        return reconnected(stream, again=again, over=over, reconnection=self._reconnection, deadline=deadline)

    def insist(self, act: Callable[[], T]) -> T:
        """Do what may be done twice, and do it again when the service dies meanwhile."""
        return (
            act()
            if self._reconnection is None
            else self._reconnection.retry(act, lambda: self.call("GET", ("version",)))
        )

    def _answers(self, path: tuple[str, ...]) -> bool:
        try:
            self.call("GET", path)
        except NotFoundError:
            return False
        return True

    def exists(self, path: tuple[str, ...]) -> bool:
        """Whether there is something at that path."""
        answer = self._transport.send(Request(method="HEAD", path=_written(path)))
        content = answer.read()
        if answer.status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
            raise error_from_body(content, answer.status)
        return answer.status == HTTPStatus.OK

    @contextmanager
    def chunks(self, path: tuple[str, ...], query: Query = ()) -> Iterator[Iterator[bytes]]:
        """Return a body of any size as it arrives; whoever has read enough of it lets go of the connection."""
        with closing(self._open(path, query, None)) as answer:
            yield answer.chunks()

    def _stream(self, path: tuple[str, ...], query: Query, deadline: float | None) -> Iterator[bytes]:
        return _lines(self._open(path, query, deadline).lines())

    def _open(self, path: tuple[str, ...], query: Query, deadline: float | None) -> Answer:
        answer = self._transport.send(Request(method="GET", path=_written(path), query=query, deadline=deadline))
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise error_from_body(answer.read(), answer.status)
        return answer


def _read(kind: type[T], body: bytes) -> T:
    """Decode an answer; one that cannot be read comes from something that is not a service, or from one too new."""
    try:
        return codec(kind).decode(body)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"the answer is not understood ({error}); compare with 'gangline version'") from error


def deadline_of(timeout: float | None) -> float | None:
    """Return when a wait of that length ends, on the monotonic clock."""
    return None if timeout is None else time.monotonic() + timeout


def query_of(**parameters: str | int | bool | None) -> Query:
    """Write query parameters; what is None or False is left out."""
    return tuple(
        (name, "true" if value is True else str(value))
        for name, value in parameters.items()
        if value is not None and value is not False
    )


def body_of(document: object) -> bytes:
    """Write what is submitted; paths and whole numbers of any framework count as the text and the numbers they are."""
    try:
        return msgspec.json.encode(document, enc_hook=_plain)
    except UnicodeEncodeError as error:
        expected = "text in commands, variables and names"
        raise InvalidInputError(f"not UTF-8: {_bytes_of(error.object)}", expected=expected) from error


def _bytes_of(text: str) -> str:
    try:
        return repr(text.encode(errors="surrogateescape"))  # what was typed or read
    except UnicodeEncodeError:
        return ascii(text)


def _plain(value: object) -> object:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, SupportsIndex):
        return operator.index(value)
    raise InvalidInputError(f"{value!r} does not fit into a job", expected="text, numbers, lists and mappings of them")


def _written(path: tuple[str, ...]) -> str:
    return "/".join(["", _VERSION, *(quote(part, safe="") for part in path)])


def _lines(lines: Iterator[bytes]) -> Iterator[bytes]:
    for line in lines:
        if line.startswith(_ERROR_LINE):
            raise error_from_body(line, HTTPStatus.OK)
        yield line
