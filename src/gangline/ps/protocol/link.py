"""A worker's connection to one server: requests out, replies in, in order. Sessions and resize use it.

`RemoteLink` talks over the machine's own Unix socket when the server is on this machine (then arrays go through shared
memory) and over TCP otherwise; without a secret there is no otherwise. A program without servers has the link of
in_process.py.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Protocol

from gangline.ps.blocks import BlockMap
from gangline.ps.errors import AuthenticationError, WireError, from_code
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.authentication import Credentials, prove
from gangline.ps.protocol.frames import SHARED, Buffer, FrameReader, Stream, frame, send_all
from gangline.ps.protocol.shared_image import SharedImage, peer_is_same_user, unix_name
from gangline.runtime.peers import split_address

CONNECT_SECONDS = 2.0
# A server may be at a long piece of work when somebody connects.
PROOF_SECONDS = 30.0
REPLY_SECONDS = 120.0


class Link(Protocol):
    """What sessions need of a connection. `shared` says whether arrays go through the shared image."""

    shared: bool

    def send(self, request: m.Request, payload: Sequence[Buffer] = ()) -> None:
        """Send one request; several may be under way."""

    def receive(self, targets: Iterable[memoryview] = ()) -> m.Reply:
        """The oldest outstanding reply; its payload goes into `targets`. Raises what the server refused with."""

    def close(self) -> None:
        """Let go."""


def ask(link: Link, request: m.Request, payload: Sequence[Buffer] = ()) -> m.Reply:
    """One request and its reply."""
    link.send(request, payload)
    return link.receive()


def ask_map(link: Link) -> BlockMap:
    """The newest map that a server knows; see AskMap."""
    reply = ask(link, m.AskMap())
    assert isinstance(reply, m.CurrentMap)
    return reply.map


class RemoteLink:
    """A socket to a server."""

    def __init__(
        self,
        address: str,
        *,
        job: str,
        sender: str,
        image: SharedImage | None = None,
        credentials: Credentials = Credentials(),  # noqa: B008  # a constant
    ) -> None:
        self._sock = _dial(address, credentials, prefer_local=image is not None)
        self._sock.settimeout(REPLY_SECONDS)
        self._reader = FrameReader(self._sock)
        local = self._sock if isinstance(self._sock, socket.socket) and self._sock.family == socket.AF_UNIX else None
        self.shared = bool(image and local)
        try:
            if image and local:
                hello = frame(m.encode(m.Hello(job, sender, image.image_bytes)))
                socket.send_fds(local, [hello], [image.descriptor])
            else:
                send_all(self._sock, [frame(m.encode(m.Hello(job, sender)))])
            self.receive()
        except BaseException:
            self.close()
            raise

    def send(self, request: m.Request, payload: Sequence[Buffer] = ()) -> None:
        """See Link."""
        flags = SHARED if self.shared else 0
        size = sum(len(part) for part in payload)
        send_all(self._sock, [frame(m.encode(request), size, flags), *payload])

    def receive(self, targets: Iterable[memoryview] = ()) -> m.Reply:
        """See Link."""
        _, message, payload_bytes = self._reader.message()
        reply = m.decode_reply(message)
        if payload_bytes:
            wanted = list(targets)
            if sum(target.nbytes for target in wanted) != payload_bytes:
                raise WireError(f"{payload_bytes} bytes came for room of {sum(t.nbytes for t in wanted)}")
            self._reader.payload(wanted)
        return unless_failed(reply)

    def receive_with_payload(self) -> tuple[m.Reply, memoryview]:
        """A reply whose payload's size only the reply tells."""
        _, message, payload_bytes = self._reader.message()
        payload = memoryview(bytearray(payload_bytes))
        self._reader.payload([payload])
        return unless_failed(m.decode_reply(message)), payload

    def close(self) -> None:
        """See Link."""
        self._sock.close()


def _dial(address: str, credentials: Credentials, *, prefer_local: bool) -> Stream:
    if not credentials.secret:
        try:
            return _dial_local(address, credentials)
        except OSError as error:
            raise ConnectionError(
                f"{address} cannot be reached on this machine, and without a secret (GANGLINE_SECRET_FILE) no server is"
                f" reached on another: {error}"
            ) from error
    if prefer_local:
        try:
            return _dial_local(address, credentials)
        except OSError:
            pass  # not on this machine, not up, or somebody else in its place: TCP will tell which
    return _dial_tcp(address, credentials)


def _dial_local(address: str, credentials: Credentials) -> Stream:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(CONNECT_SECONDS)
    try:
        sock.connect(unix_name(address))
        if not peer_is_same_user(sock):  # anybody could have taken the name
            raise AuthenticationError("the server belongs to another user")
        sock.settimeout(PROOF_SECONDS)
        return prove(sock, credentials.plain())
    except BaseException:
        sock.close()
        raise


def _dial_tcp(address: str, credentials: Credentials) -> Stream:
    sock = socket.create_connection(split_address(address), timeout=CONNECT_SECONDS)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A machine that vanished sends no reset: notice within seconds rather than by the time-out of a reply.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 4)):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 15_000)
        sock.settimeout(PROOF_SECONDS)
        return prove(sock, credentials)
    except BaseException:
        sock.close()
        raise


def unless_failed(reply: m.Reply) -> m.Reply:
    """A reply, or the error that a refusal stands for."""
    if isinstance(reply, m.Failed):
        raise from_code(reply.code, reply.message)
    return reply
