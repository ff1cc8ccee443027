"""A worker's connection to one server: requests out, replies in, in order. Sessions and resize use it.

`RemoteLink` talks over the machine's own Unix socket when the server is on this machine (then arrays go through shared
memory) and over TCP otherwise. A program without servers has the link of in_process.py.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Protocol

from gangline.ps import messages as m
from gangline.ps.blocks import BlockMap
from gangline.ps.errors import WireError, from_code
from gangline.ps.shared_image import SharedImage, unix_name
from gangline.ps.wire import SHARED, Buffer, FrameReader, frame, send_all
from gangline.runtime.peers import split_address

CONNECT_SECONDS = 2.0
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

    def __init__(self, address: str, *, job: str, sender: str, image: SharedImage | None = None) -> None:
        self._sock, self.shared = _dial(address, want_shared=image is not None)
        self._sock.settimeout(REPLY_SECONDS)
        self._reader = FrameReader(self._sock)
        image_bytes = image.image_bytes if image and self.shared else 0
        hello = frame(m.encode(m.Hello(job, sender, image_bytes)))
        try:
            if image and self.shared:
                socket.send_fds(self._sock, [hello], [image.descriptor])
            else:
                self._sock.sendall(hello)
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


def _dial(address: str, *, want_shared: bool) -> tuple[socket.socket, bool]:
    if want_shared:
        local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        local.settimeout(CONNECT_SECONDS)
        try:
            local.connect(unix_name(address))
        except OSError:
            local.close()  # not on this machine, or not up: TCP will tell which
        else:
            return local, True
    sock = socket.create_connection(split_address(address), timeout=CONNECT_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A machine that vanished sends no reset: notice within seconds rather than by the time-out of a reply.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 4)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 15_000)
    return sock, False


def unless_failed(reply: m.Reply) -> m.Reply:
    """A reply, or the error that a refusal stands for."""
    if isinstance(reply, m.Failed):
        raise from_code(reply.code, reply.message)
    return reply
