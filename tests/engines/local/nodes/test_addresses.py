"""Ports of their own for replicas of frameworks that listen on every address."""

import socket
from collections.abc import Iterator

import pytest

from gangline.engines.local.nodes.addresses import Addresses


@pytest.fixture
def addresses() -> Iterator[Addresses]:
    addresses = Addresses()
    yield addresses
    addresses.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def test_no_two_replicas_get_the_same_port_nor_one_below_the_wanted(addresses: Addresses) -> None:
    wanted = free_port()
    ports = [addresses.take_port(wanted, addresses.take(wanted)) for _ in range(4)]
    assert len(set(ports)) == 4
    assert min(ports) >= wanted


def test_a_port_that_somebody_listens_on_at_any_address_is_passed_by(addresses: Addresses) -> None:
    address = addresses.take(1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        assert addresses.take_port(taken, address) > taken


def test_another_engine_passes_by_what_is_only_handed_out_yet(addresses: Addresses) -> None:
    first = addresses.take_port(free_port(), addresses.take(1))
    other = Addresses()
    assert other.take_port(first, other.take(1)) > first
    other.close()


def test_a_port_goes_back_with_its_address(addresses: Addresses) -> None:
    wanted = free_port()
    address = addresses.take(wanted)
    port = addresses.take_port(wanted, address)
    addresses.release(address)
    assert addresses.take_port(port, addresses.take(port)) == port
