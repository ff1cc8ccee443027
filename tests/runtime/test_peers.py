"""Waiting until the other replicas listen."""

import socket
import threading

import pytest

from gangline.runtime import RendezvousError, rendezvous
from gangline.runtime.peers import split_address


def test_it_returns_when_all_peers_listen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        rendezvous(timeout=60, peers=[f"127.0.0.1:{listener.getsockname()[1]}"])


def test_it_waits_for_a_peer_that_comes_later() -> None:
    late = socket.socket()
    late.bind(("127.0.0.1", 0))
    starter = threading.Timer(0.2, late.listen)
    starter.start()
    with late:
        rendezvous(timeout=60, peers=[f"127.0.0.1:{late.getsockname()[1]}"])
        starter.join()


def test_it_names_the_peers_that_never_came() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"

        with pytest.raises(RendezvousError, match=address) as caught:
            rendezvous(timeout=0.01, peers=[address])

    assert caught.value.missing == (address,)


def test_every_other_replica_is_meant_when_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANGLINE_CLUSTER", '{"worker": ["127.0.0.1:1"]}')
    monkeypatch.setenv("GANGLINE_ADDRESS", "127.0.0.1:1")

    rendezvous(timeout=0.01)


@pytest.mark.parametrize(
    ("address", "want"), [("10.0.0.1:80", ("10.0.0.1", 80)), ("[::1]:80", ("::1", 80))], ids=["IPv4", "IPv6"]
)
def test_addresses_are_split(address: str, want: tuple[str, int]) -> None:
    assert split_address(address) == want
