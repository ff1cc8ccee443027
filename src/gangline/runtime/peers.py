"""Rendezvous: wait until other replicas accept connections. Training code calls it before it dials by itself."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable

from gangline.runtime.errors import RendezvousError
from gangline.runtime.replica import current

RETRY_SECONDS = 0.1


def rendezvous(timeout: float = 60.0, peers: Iterable[str] | None = None) -> None:
    """Return once every peer ("host:port") accepts a connection; by default every other replica of the job.

    Raises RendezvousError that names the peers still missing after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    missing = _everyone_else() if peers is None else tuple(peers)
    while missing := tuple(peer for peer in missing if not _accepts(peer, deadline)):
        if time.monotonic() >= deadline:
            raise RendezvousError(missing, timeout)
        time.sleep(RETRY_SECONDS)


def split_address(address: str) -> tuple[str, int]:
    """Turn "host:port" into a host and a number; IPv6 hosts may stand in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _everyone_else() -> tuple[str, ...]:
    replica = current()
    return tuple(peer for peers in replica.cluster.values() for peer in peers if peer != replica.address)


def _accepts(peer: str, deadline: float) -> bool:
    wait = min(1.0, max(RETRY_SECONDS, deadline - time.monotonic()))
    try:
        with socket.create_connection(split_address(peer), timeout=wait):
            return True
    except OSError:
        return False
