"""Where connections come in: whoever has not proved to know the job's secret gets no further.

The server's loop calls it. Connections that have proved nothing are few and do not stay long, so that they keep no
worker out: when there are too
many, the one that has been there longest has to go, and its worker, if it was one, comes again.
"""

from __future__ import annotations

import ipaddress
import logging
import selectors
import socket
import time

from gangline.ps.errors import AuthenticationError
from gangline.ps.protocol.authentication import Credentials, PendingConnection
from gangline.ps.protocol.shared_image import peer_is_same_user, unix_name
from gangline.runtime.peers import split_address

BACKLOG = 256
MOST_PENDING = 256
HANDSHAKE_SECONDS = 10.0
REPORT_SECONDS = 10.0
PAUSE_SECONDS = 0.1
logger = logging.getLogger(__name__)


class Acceptor:
    """The listening sockets of one server, and who has come in by them and proved nothing yet."""

    def __init__(self, selector: selectors.BaseSelector, credentials: Credentials) -> None:
        self._selector = selector
        self._credentials = credentials
        self._sockets: list[socket.socket] = []
        self._pending: dict[PendingConnection, None] = {}  # in the order they came, which is that of their time
        self._refused = 0
        self._report_due = 0.0

    def listen(self, address: str) -> str:
        """Open the sockets; answers the address, with the port that the system chose if it was to choose one."""
        host, port = split_address(address)
        tcp = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A name may not resolve yet while this replica starts; a number is this replica's own address.
        tcp.bind((host if _is_number(host) else "", port))
        name, bound = tcp.getsockname()[:2]
        actual = address if port else f"{name}:{bound}"
        local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            local.bind(unix_name(actual))
        except OSError as error:
            if not self._credentials.secret:
                raise
            # Anybody on the machine can take a name; workers find out that it is not us, and come by TCP.
            logger.warning("no shared memory: the local socket of %s is taken: %s", actual, error)
        else:
            self._open(local)
        self._sockets = [tcp, local]
        if self._credentials.secret:
            self._open(tcp)
        else:
            # Bound all the same: the address is taken, and nobody else answers there.
            logger.warning("no secret (GANGLINE_SECRET_FILE): only this user's processes on this machine are served")
        return actual

    def accept(self, listener: socket.socket, now: float) -> PendingConnection | None:
        """Let one more in; the first word to it is still to be said, by `advance`."""
        try:
            sock, _ = listener.accept()
        except BlockingIOError:
            return None
        except OSError as error:
            logger.warning("a connection could not be accepted: %s", error)
            time.sleep(PAUSE_SECONDS)  # it is still waiting, and would be tried again at once
            return None
        local = sock.family == socket.AF_UNIX
        if local and not peer_is_same_user(sock):
            sock.close()
            return None
        sock.setblocking(False)
        if not local:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        credentials = self._credentials.plain() if local else self._credentials
        pending = PendingConnection(sock, credentials, until=now + HANDSHAKE_SECONDS)
        self._selector.register(sock, selectors.EVENT_READ, pending)
        self._pending[pending] = None
        if len(self._pending) > MOST_PENDING:
            self._drop(next(iter(self._pending)))
        return pending

    def advance(self, pending: PendingConnection) -> bool:
        """Take what a connection says; whether it has proved itself, and whoever asked goes on with its socket."""
        try:
            if not pending.advance():
                return False
        except OSError as error:
            self._drop(pending)
            self._refused += isinstance(error, AuthenticationError)
            return False
        self._forget(pending)
        return True

    def tick(self, now: float) -> None:
        """Send those away whose time is up; tell of them, but not of each: whoever can connect could fill a disk."""
        for pending in [each for each in self._pending if each.until <= now]:
            self._drop(pending)
            self._refused += 1
        if self._refused and now >= self._report_due:
            logger.warning("refused %d connections that did not know the job's secret", self._refused)
            self._refused, self._report_due = 0, now + REPORT_SECONDS

    def close(self) -> None:
        """Let nobody in any more."""
        for pending in list(self._pending):
            self._drop(pending)
        for sock in self._sockets:
            sock.close()

    def _open(self, listener: socket.socket) -> None:
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, listener)

    def _drop(self, pending: PendingConnection) -> None:
        self._forget(pending)
        pending.sock.close()

    def _forget(self, pending: PendingConnection) -> None:
        self._pending.pop(pending, None)
        self._selector.unregister(pending.descriptor)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
