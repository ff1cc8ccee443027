"""What one server makes of the connections that come and go, and of being told to stop."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from gangline import ps
from gangline.ps.server.loop import Server
from gangline.ps.server.resizing import Departure, announce
from tests.ps.gang import JOB, dial, free_address, make_replica, make_server, wait_until

MODEL = {f"t{number}": np.zeros(3) for number in range(4)}
LEASE_SECONDS = 600.0


@contextmanager
def running(addresses: Sequence[str]) -> Iterator[list[Server]]:
    settings, stop = ps.Settings(lease_seconds=LEASE_SECONDS), threading.Event()
    with ExitStack() as stack:
        servers = []
        for address in addresses:
            server = make_server(address, tuple(addresses), settings)
            thread = threading.Thread(target=server.run, args=(stop.is_set,))
            thread.start()
            stack.callback(thread.join)
            servers.append(server)
        stack.callback(stop.set)
        yield servers


def test_an_old_connection_that_closes_late_costs_a_worker_that_is_back_nothing() -> None:
    with running([free_address()]) as (server,):
        before = ps.connect(MODEL, replica=make_replica([server.address]))
        with ps.connect(MODEL, replica=make_replica([server.address])):
            connections = len(server._selector.get_map())
            before.abandon()
            wait_until(lambda: len(server._selector.get_map()) < connections, "the server noticed")

            (member,) = server.service.coordinator.state().members.values()
            assert member.expires - time.monotonic() > LEASE_SECONDS / 2


def test_servers_that_join_at_the_same_time_all_get_their_share() -> None:
    first, *others = addresses = [free_address() for _ in range(4)]
    with running(addresses) as servers, ps.connect(MODEL, replica=make_replica([first])) as session:
        ps.resize([first], job=JOB)
        joining = [threading.Thread(target=announce, args=(address, addresses, dial)) for address in others]
        for thread in joining:
            thread.start()
        for thread in joining:
            thread.join()

        session.push_pull({name: np.ones(3) for name in MODEL})
        session._servers.wait_for_servers()
        assert sorted(peer.address for peer in session._servers.peers) == sorted(addresses)
        assert all(server.service.store.blocks for server in servers)


@pytest.mark.parametrize(
    ("leaving", "want"),
    [
        pytest.param((1,), (0, 2), id="one leaves"),
        pytest.param((0,), (1, 2), id="the lead leaves"),
        pytest.param((1, 2), (0,), id="two leave"),
        pytest.param((0, 1, 2), (0, 1, 2), id="the whole job is stopped"),
    ],
)
def test_blocks_of_servers_that_leave_go_to_those_that_stay(leaving: tuple[int, ...], want: tuple[int, ...]) -> None:
    addresses = [free_address() for _ in range(3)]
    with running(addresses) as servers, ps.connect(MODEL, replica=make_replica(addresses)) as session:
        for number in leaving:
            servers[number].service.leaving = True
        departures = [Departure(addresses[number], dial, seconds=60.0) for number in leaving]
        for departure in departures:
            departure.start()
        for departure in departures:
            departure.join()

        session.push_pull({name: np.ones(3) for name in MODEL})
        session._servers.wait_for_servers()
        assert [peer.address for peer in session._servers.peers] == [addresses[number] for number in want]
        for number in leaving:
            assert bool(servers[number].service.store.blocks) == (number in want)
