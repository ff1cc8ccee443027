"""Messages of HTTP/1: heads and the framing of bodies, read strictly and written anew. Pure.

What two programs could understand differently is refused, never passed on: that is how requests are smuggled past a
proxy. Heads are read with regular expressions, and so without a package that would have to be installed.
"""

import re
from dataclasses import dataclass

MAX_HEAD_BYTES = 32 << 10
_MAX_CHUNK_LINE = 256
_MAX_TRAILER_BYTES = 8 << 10

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"(%s) ([\x21-\x7e\x80-\xff]+) HTTP/1\.([01])\r\n" % _TOKEN)
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: ([^\x00-\x08\x0a-\x1f\x7f]*))?\r\n")
_FIELDS = re.compile(rb"(?:%s:[^\x00-\x08\x0a-\x1f\x7f]*\r\n)*" % _TOKEN)
_FIELD = re.compile(rb"(%s):([^\r\n]*)\r\n" % _TOKEN)
_HOST = re.compile(rb"[A-Za-z0-9._~\-]*(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")

HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
_NEVER_DROPPED = frozenset((b"host", b"content-length", b"authorization", b"content-type"))
REPLACED = frozenset((b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-prefix"))
IDEMPOTENT = frozenset((b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"TRACE"))

Fields = list[tuple[bytes, bytes, bytes]]
"""Name in lower case, name as it came, value."""


class MessageError(Exception):
    """What was received is not a message that everybody understands alike."""

    def __init__(self, problem: str, status: int = 400) -> None:
        super().__init__(problem)
        self.status = status


class Length:
    """A body of known length."""

    __slots__ = ("_left",)

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def done(self) -> bool:
        """Whether all of it has been taken."""
        return not self._left

    def take(self, buffer: bytearray) -> bytes:
        """Take what there is of the body out of a buffer."""
        if len(buffer) <= self._left:
            piece = bytes(buffer)
            buffer.clear()
        else:
            piece = bytes(buffer[: self._left])
            del buffer[: self._left]
        self._left -= len(piece)
        return piece


class UntilClose:
    """The body of an answer that ends with the connection."""

    __slots__ = ()
    done = False

    def take(self, buffer: bytearray) -> bytes:
        """Take everything."""
        piece = bytes(buffer)
        buffer.clear()
        return piece


class Chunked:
    """A body in chunks. Extensions and trailers are read and dropped."""

    __slots__ = ("_ending", "_left", "_trailers", "done")

    def __init__(self) -> None:
        self.done = False
        self._left = 0
        self._ending = b""
        self._trailers = -1  # how many bytes of them, once the last chunk has come

    def take(self, buffer: bytearray) -> bytes:
        """Take what there is of the content out of a buffer."""
        pieces, at = [], 0
        while not self.done:
            if self._left:
                piece = bytes(buffer[at : at + self._left])
                if not piece:
                    break
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._ending = b"" if self._left else b"\r\n"
            elif self._ending:
                if len(buffer) - at < 2:
                    break
                if buffer[at : at + 2] != b"\r\n":
                    raise MessageError("a chunk is longer than it says")
                at, self._ending = at + 2, b""
            else:
                end = buffer.find(b"\n", at)
                if end < 0:
                    if len(buffer) - at > _MAX_CHUNK_LINE:
                        raise MessageError("the line before a chunk is too long")
                    break
                self._line(bytes(buffer[at : end + 1]))
                at = end + 1
        del buffer[:at]
        return b"".join(pieces)

    def _line(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            raise MessageError("a line of a chunked body ends without a carriage return")
        if self._trailers >= 0:
            self._trailers += len(line)
            self.done = line == b"\r\n"
            if self._trailers > _MAX_TRAILER_BYTES:
                raise MessageError("the trailers are too long", 431)
            if not self.done and not _FIELD.fullmatch(line):
                raise MessageError("a trailer is not a header")
            return
        found = _CHUNK_SIZE.fullmatch(line[:-2])
        if found is None:
            raise MessageError("a chunk's size is not a number")
        self._left = int(found[1], 16)
        if not self._left:
            self._trailers = 0


Body = Length | UntilClose | Chunked


@dataclass(slots=True)
class RequestHead:
    """The head of a request."""

    method: bytes
    target: bytes
    host: bytes
    fields: Fields
    body: Length | Chunked
    keep_alive: bool
    modern: bool
    """HTTP/1.1, not 1.0."""
    upgrade: bytes
    """What the client would like to speak instead, if it may ask that: ``websocket``."""
    listed: frozenset[bytes]
    """Headers that Connection says are for the next hop alone."""

    def get(self, name: bytes) -> bytes | None:
        """Return the first value of a header."""
        return next((value for lower, _, value in self.fields if lower == name), None)


@dataclass(slots=True)
class AnswerHead:
    """The head of an answer."""

    status: int
    reason: bytes
    fields: Fields
    body: Body
    keep_alive: bool
    listed: frozenset[bytes]


def end_of_head(buffer: bytearray, start: int = 0) -> int:
    """Where the head ends, behind its empty line; -1 while it has not come whole."""
    end = buffer.find(b"\r\n\r\n", start)
    if end >= 0 and end < MAX_HEAD_BYTES:
        return end + 4
    if end >= 0 or len(buffer) > MAX_HEAD_BYTES:
        raise MessageError("the headers are too long", 431)
    if b"\n\n" in buffer or buffer[:1] == b"\n":
        raise MessageError("a line ends without a carriage return")
    return -1


def _fields(head: bytes, start: int) -> Fields:
    found = _FIELDS.match(head, start)
    if found is None or found.end() != len(head) - 2:
        raise MessageError("a header is malformed")
    return [(name.lower(), name, value.strip(b" \t")) for name, value in _FIELD.findall(head, start)]


def _special(fields: Fields) -> dict[bytes, list[bytes]]:
    """Values of the headers that say how a message is to be read."""
    found: dict[bytes, list[bytes]] = {}
    for lower, _, value in fields:
        if lower in _MEANINGFUL:
            found.setdefault(lower, []).append(value)
    return found


_MEANINGFUL = frozenset((b"content-length", b"transfer-encoding", b"connection", b"host", b"upgrade"))


def _words(values: list[bytes]) -> frozenset[bytes]:
    return frozenset(word.strip().lower() for value in values for word in value.split(b",") if word.strip())


def _length(values: list[bytes]) -> int:
    if len(values) != 1 or not values[0].isdigit() or len(values[0]) > 18:
        raise MessageError("the content length is not one number")
    return int(values[0])


def _is_chunked(special: dict[bytes, list[bytes]], *, modern: bool) -> bool:
    encodings = special.get(b"transfer-encoding")
    if encodings is None:
        return False
    if b"content-length" in special:
        raise MessageError("both a content length and a transfer encoding")
    if not modern or len(encodings) != 1 or encodings[0].lower() != b"chunked":
        raise MessageError("a transfer encoding other than chunked", 501 if modern else 400)
    return True


def read_request(head: bytes) -> RequestHead:
    """Read a whole head with its empty line. Raises MessageError."""
    line = _REQUEST_LINE.match(head)
    if line is None:
        raise MessageError("the request line is malformed")
    modern = line[3] == b"1"
    fields = _fields(head, line.end())
    special = _special(fields)
    hosts = special.get(b"host", [])
    if len(hosts) > 1 or (modern and not hosts) or (hosts and not _HOST.fullmatch(hosts[0])):
        raise MessageError("there must be one Host header with a host name")
    connection = _words(special.get(b"connection", []))
    chunked = _is_chunked(special, modern=modern)
    length = _length(special[b"content-length"]) if b"content-length" in special else 0
    upgrade = b"".join(special.get(b"upgrade", [])).lower()
    may_upgrade = modern and b"upgrade" in connection and not chunked and not length and not upgrade.startswith(b"h2")
    return RequestHead(
        method=line[1],
        target=line[2],
        host=hosts[0] if hosts else b"",
        fields=fields,
        body=Chunked() if chunked else Length(length),
        keep_alive=b"close" not in connection if modern else b"keep-alive" in connection,
        modern=modern,
        upgrade=upgrade if may_upgrade else b"",
        listed=connection - _NEVER_DROPPED,
    )


def read_answer(head: bytes, method: bytes) -> AnswerHead:
    """Read the head of an answer to a request with this method. Raises MessageError."""
    line = _STATUS_LINE.match(head)
    if line is None:
        raise MessageError("the status line is malformed")
    modern, status = line[1] == b"1", int(line[2])
    fields = _fields(head, line.end())
    special = _special(fields)
    connection = _words(special.get(b"connection", []))
    body: Body
    if method == b"HEAD" or status < 200 or status in (204, 304):
        body = Length(0)
    elif _is_chunked(special, modern=modern):
        body = Chunked()
    elif b"content-length" in special:
        body = Length(_length(special[b"content-length"]))
    else:
        body = UntilClose()
    keep = b"close" not in connection if modern else b"keep-alive" in connection
    keep = keep and not isinstance(body, UntilClose)
    return AnswerHead(status, line[3] or b"", fields, body, keep, connection - _NEVER_DROPPED)


def write_request(head: RequestHead, target: bytes, extra: bytes, dropped: frozenset[bytes]) -> bytes:
    """Write the head for a backend. ``extra`` are whole header lines."""
    out = head.listed | dropped if head.listed else dropped
    lines = [name + b": " + value for lower, name, value in head.fields if lower not in out]
    if isinstance(head.body, Chunked):
        lines.append(b"Transfer-Encoding: chunked")
    if head.upgrade:
        lines.append(b"Connection: Upgrade\r\nUpgrade: " + head.upgrade)
    return b"%s %s HTTP/1.1\r\n%s\r\n%s\r\n" % (head.method, target, b"\r\n".join(lines), extra)


def write_answer(head: AnswerHead, framing: bytes) -> bytes:
    """Write the head for a client. ``framing`` are whole header lines."""
    out = head.listed | HOP_BY_HOP if head.listed else HOP_BY_HOP
    lines = [name + b": " + value + b"\r\n" for lower, name, value in head.fields if lower not in out]
    return b"HTTP/1.1 %d %s\r\n%s%s\r\n" % (head.status, head.reason, b"".join(lines), framing)
