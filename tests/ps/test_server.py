"""What one server makes of the connections that come and go."""

import threading
import time

import numpy as np

from gangline import ps
from gangline.ps.server import Server
from tests.ps.gang import JOB, free_address, make_replica, wait_until

ZEROS = {"w": np.zeros(3)}
LEASE_SECONDS = 600.0


def test_an_old_connection_that_closes_late_costs_a_worker_that_is_back_nothing() -> None:
    address, stop = free_address(), threading.Event()
    settings = ps.Settings(lease_seconds=LEASE_SECONDS)
    server = Server(address, servers=(address,), settings=settings, job=JOB, directory=None)
    thread = threading.Thread(target=server.run, args=(stop.is_set,))
    thread.start()
    try:
        before = ps.connect(ZEROS, replica=make_replica([address]))
        with ps.connect(ZEROS, replica=make_replica([address])):
            connections = len(server._selector.get_map())
            before.abandon()
            wait_until(lambda: len(server._selector.get_map()) < connections, "the server noticed")

            (member,) = server.service.coordinator.state().members.values()
            assert member.expires - time.monotonic() > LEASE_SECONDS / 2
    finally:
        stop.set()
        thread.join()
