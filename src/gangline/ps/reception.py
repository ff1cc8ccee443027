"""Where connections come in: whoever has not proved to know the job's secret gets no further.

The server's loop calls it. Strangers are few and do not stay long, so that they keep no worker out: when there are too
many, the one that has been there longest has to go, and its worker, if it was one, comes again.
"""

from __future__ import annotations

import ipaddress
import logging
import selectors
import socket
import time

from gangline.ps.authentication import Credentials, Stranger
from gangline.ps.errors import AuthenticationError
from gangline.ps.shared_image import peer_is_same_user, unix_name
from gangline.runtime.peers import split_address

BACKLOG = 256
MOST_STRANGERS = 256
STRANGER_SECONDS = 10.0
REPORT_SECONDS = 10.0
PAUSE_SECONDS = 0.1
logger = logging.getLogger(__name__)


class Reception:
    """The listening sockets of one server, and who has come in by them and proved nothing yet."""

    def __init__(self, selector: selectors.BaseSelector, credentials: Credentials) -> None:
        self._selector = selector
        self._credentials = credentials
        self._sockets: list[socket.socket] = []
        self._strangers: dict[Stranger, None] = {}  # in the order they came, which is that of their time
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

    def accept(self, listener: socket.socket, now: float) -> Stranger | None:
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
        stranger = Stranger(sock, credentials, until=now + STRANGER_SECONDS)
        self._selector.register(sock, selectors.EVENT_READ, stranger)
        self._strangers[stranger] = None
        if len(self._strangers) > MOST_STRANGERS:
            self._drop(next(iter(self._strangers)))
        return stranger

    def advance(self, stranger: Stranger) -> bool:
        """Take what a stranger says; whether it is one no longer, and whoever asked goes on with its socket."""
        try:
            if not stranger.advance():
                return False
        except OSError as error:
            self._drop(stranger)
            self._refused += isinstance(error, AuthenticationError)
            return False
        self._forget(stranger)
        return True

    def tick(self, now: float) -> None:
        """Send those away whose time is up; tell of them, but not of each: whoever can connect could fill a disk."""
        for stranger in [each for each in self._strangers if each.until <= now]:
            self._drop(stranger)
            self._refused += 1
        if self._refused and now >= self._report_due:
            logger.warning("refused %d connections that did not know the job's secret", self._refused)
            self._refused, self._report_due = 0, now + REPORT_SECONDS

    def close(self) -> None:
        """Let nobody in any more."""
        for stranger in list(self._strangers):
            self._drop(stranger)
        for sock in self._sockets:
            sock.close()

    def _open(self, listener: socket.socket) -> None:
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, listener)

    def _drop(self, stranger: Stranger) -> None:
        self._forget(stranger)
        stranger.sock.close()

    def _forget(self, stranger: Stranger) -> None:
        self._strangers.pop(stranger, None)
        self._selector.unregister(stranger.descriptor)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
