"""The server's loop: one thread, all connections, no locks.

One thread is enough because the work behind a request is NumPy on memory: a second would only fight for the same
interpreter. Reads requests, has the service answer them, sends replies; between them lets leases end and has
snapshots written. `serve` in entry.py runs it.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from gangline.ps.errors import WireError
from gangline.ps.protocol.authentication import Credentials, PendingConnection
from gangline.ps.protocol.frames import SHARED
from gangline.ps.protocol.messages import Hello, Request, encode
from gangline.ps.protocol.shared_image import SharedImage
from gangline.ps.server.acceptor import Acceptor
from gangline.ps.server.connection import Connection, Inbound
from gangline.ps.server.resizing import Departure
from gangline.ps.server.service import Answer, Caller, Exchange, Service
from gangline.ps.server.snapshot import Snapshots
from gangline.ps.settings import Settings

TICK_SECONDS = 0.1
# While workers wait for a snapshot that another thread writes.
AWAITED_TICK_SECONDS = 0.005
# Here and not beside the messages: building it takes milliseconds, which workers save.
decode_request = msgspec.msgpack.Decoder(Request).decode
logger = logging.getLogger(__name__)


class Server:
    """One parameter server at one address."""

    def __init__(
        self,
        address: str,
        *,
        servers: tuple[str, ...],
        settings: Settings,
        job: str,
        directory: Path | None,
        credentials: Credentials = Credentials(),  # noqa: B008  # a constant
    ) -> None:
        self._job = job
        self.service = Service(settings, address, servers)
        store, coordinator, longest = self.service.store, self.service.coordinator, settings.snapshot_seconds
        self._snapshots = Snapshots(directory, store, coordinator, longest_seconds=longest) if directory else None
        if self._snapshots and self._snapshots.restore(time.monotonic()):
            logger.info("restored %d blocks", len(self.service.store.blocks))
        self._selector = selectors.DefaultSelector()
        self._parked: deque[tuple[Connection, Request]] = deque()
        self._written_layout = self._layout()
        self._acceptor = Acceptor(self._selector, credentials)
        self.address = self._acceptor.listen(address)

    def run(
        self, stopping: Callable[[], bool], *, linger_seconds: float = 0.0, departure: Departure | None = None
    ) -> None:
        """Serve until told to stop, then for a while as long as anyone is connected; write a last snapshot and close.

        When a whole job is stopped, its workers still have a step to push: they must find their servers. When this
        server alone is stopped, the departure takes its blocks elsewhere, and is served until it has.
        """
        try:
            while not stopping():
                self._serve_once()
            self.service.leaving = True
            if departure and any(self._connections()):
                departure.start()
            deadline = time.monotonic() + linger_seconds
            while (departure and departure.under_way()) or self._is_needed(deadline):
                self._serve_once()
        finally:
            self.close()

    def close(self) -> None:
        """Write what there is and let go of the sockets."""
        if self._snapshots:
            self._collect(self._snapshots, wait=True)
            self._snapshots.begin(time.monotonic())
            self._collect(self._snapshots, wait=True)
        self._acceptor.close()
        for connection in list(self._connections()):
            self._drop(connection)
        self._selector.close()

    def _serve_once(self) -> None:
        awaited = self._parked and self._snapshots and self._snapshots.busy
        for key, mask in self._selector.select(AWAITED_TICK_SECONDS if awaited else TICK_SECONDS):
            self._turn(key.data, mask)
        self._tick(time.monotonic())

    def _is_needed(self, deadline: float) -> bool:
        """Whether somebody may still want what is here: blocks, or the word of the lead."""
        holds = self.service.store.blocks or self.service.coordinator.leads
        return bool(holds) and time.monotonic() < deadline and any(self._connections())

    def _layout(self) -> tuple[int, int, int]:
        store, coordinator = self.service.store, self.service.coordinator
        return len(store.blocks), store.map_version, coordinator.map_version

    def _connections(self) -> Iterator[Connection]:
        return (key.data for key in self._selector.get_map().values() if isinstance(key.data, Connection))

    def _turn(self, data: object, mask: int) -> None:
        if isinstance(data, socket.socket):
            data = self._acceptor.accept(data, time.monotonic())
        if isinstance(data, PendingConnection):
            self._admit(data)
        elif isinstance(data, Connection):
            self._converse(data, mask)

    def _converse(self, connection: Connection, mask: int) -> None:
        try:
            if mask & selectors.EVENT_WRITE:
                connection.flush()
            if mask & selectors.EVENT_READ:
                for inbound in connection.receive():
                    self._handle(connection, inbound)
                connection.flush()
        except (OSError, WireError, msgspec.MsgspecError) as error:
            if isinstance(error, WireError | msgspec.MsgspecError):
                logger.warning("connection dropped: %s", error)
            self._drop(connection)
            return
        except Exception:  # what one client sends must not end the training of all
            logger.exception("connection dropped: its request cannot be handled")
            self._drop(connection)
            return
        self._watch(connection)

    def _admit(self, pending: PendingConnection) -> None:
        if not self._acceptor.advance(pending):
            return
        connection = Connection(pending.sock, Caller(self._job), pending.pending)
        self._selector.register(connection.sock, selectors.EVENT_READ, connection)
        # What came with the last bytes may have been decrypted already.
        self._converse(connection, selectors.EVENT_READ)

    def _handle(self, connection: Connection, inbound: Inbound) -> None:
        request = decode_request(inbound.message)
        if not connection.greeted:
            self._greet(connection, request)
        shared = bool(inbound.flags & SHARED)
        exchange = Exchange(connection.caller, inbound.payload, shared, time.monotonic())
        answer = self.service.handle(request, exchange)
        if answer is None:
            self._parked.append((connection, request))
        else:
            _reply(connection, answer)

    def _greet(self, connection: Connection, request: Request) -> None:
        if not isinstance(request, Hello):
            raise WireError(f"a connection begins with Hello, not with {type(request).__name__}")
        # Who knows the secret and works for another job is told so, and may do nothing else.
        connection.greeted = request.job == self._job
        descriptors, connection.descriptors = connection.descriptors, []
        if connection.greeted and request.image_bytes and descriptors:
            connection.caller.image = SharedImage.accept(descriptors.pop(), request.image_bytes)
        for descriptor in descriptors:
            os.close(descriptor)

    def _watch(self, connection: Connection) -> None:
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        if wanted != connection.watched:
            self._selector.modify(connection.sock, wanted, connection)
            connection.watched = wanted

    def _drop(self, connection: Connection) -> None:
        self._selector.unregister(connection.sock)
        connection.close()
        self._parked = deque(item for item in self._parked if item[0] is not connection)
        if any(other.caller.joined == connection.caller.joined for other in self._connections()):
            connection.caller.joined = ""  # the worker is back already, on a new connection
        self.service.disconnected(connection.caller, time.monotonic())

    def _tick(self, now: float) -> None:
        coordinator = self.service.coordinator
        self._acceptor.tick(now)
        for worker in coordinator.expire(now):
            logger.info("the lease of %s ended", worker)
        if coordinator.changed:
            coordinator.changed = False
            self._ask_again(now)
        if self._snapshots:
            self._write_snapshots(self._snapshots, now)

    def _ask_again(self, now: float) -> None:
        parked, self._parked = self._parked, deque()
        for connection, request in parked:
            exchange = Exchange(connection.caller, memoryview(b""), shared=False, now=now)
            answer = self.service.handle(request, exchange)
            if answer is None:
                self._parked.append((connection, request))
                continue
            try:
                _reply(connection, answer)
                connection.flush()
                self._watch(connection)
            except OSError:
                self._drop(connection)

    def _write_snapshots(self, snapshots: Snapshots, now: float) -> None:
        if self._collect(snapshots):
            self._ask_again(now)  # workers may wait for it
        # Blocks that came or went are written at once: until then a crash would lose them, or who has them.
        moved = self._layout() != self._written_layout
        wanted = self.service.store.snapshot_wanted
        if (moved or wanted or snapshots.due(now)) and not snapshots.busy:
            self._written_layout = self._layout()
            snapshots.begin(now)

    @staticmethod
    def _collect(snapshots: Snapshots, *, wait: bool = False) -> bool:
        """Whether a snapshot came to its end, good or bad."""
        try:
            return snapshots.collect(wait=wait)
        except OSError as error:
            # Serving on without a snapshot beats not serving: the next one is tried in its turn.
            logger.error("snapshot not written: %s", error)
            return True


def _reply(connection: Connection, answer: Answer) -> None:
    connection.enqueue(encode(answer.reply), answer.arrays, answer.pins)
