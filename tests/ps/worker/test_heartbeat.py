"""A worker's lease is renewed whatever becomes of the server that leads."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gangline.ps.blocks import Tensor, spread
from gangline.ps.errors import NoMapError, NotLeadError, ReplacedError, UnknownWorkerError, WireError
from gangline.ps.protocol import messages as m
from gangline.ps.worker.heartbeat import Heartbeat

SERVERS = ("first:1", "second:1")
RENEW = m.Renew("worker-0", 1)


class Server:
    """Answers renewals with what a test says, and counts those that it granted."""

    def __init__(self, *refusals: Exception) -> None:
        self._refusals = list(refusals)
        self.granted = threading.Semaphore(0)

    def answer(self, request: m.Request) -> m.Reply:
        if isinstance(request, m.AskMap):
            return m.CurrentMap(spread([Tensor("t", "<f4", (1,))], SERVERS[::-1]))
        if self._refusals:
            raise self._refusals.pop(0)
        assert request == RENEW
        self.granted.release()
        return m.Done()


class Wire:
    """A link to such a server."""

    shared = False

    def __init__(self, server: Server) -> None:
        self._server = server

    def send(self, request: m.Request, payload: object = ()) -> None:
        self._request = request

    def receive(self, targets: object = ()) -> m.Reply:
        return self._server.answer(self._request)

    def close(self) -> None:
        """Nothing is held."""


def dialled(servers: dict[str, Server]) -> Callable[[str], Wire]:
    def dial(address: str) -> Wire:
        if address not in servers:
            raise ConnectionRefusedError
        return Wire(servers[address])

    return dial


@contextmanager
def beating(servers: dict[str, Server]) -> Iterator[Heartbeat]:
    heartbeat = Heartbeat(dialled(servers), SERVERS, RENEW, 0.001)
    heartbeat.start()
    try:
        yield heartbeat
    finally:
        heartbeat.stop()


def renewed_again_and_again(server: Server) -> bool:
    return all(server.granted.acquire(timeout=60) for _ in range(3))


def test_the_lead_hears_of_the_worker_again_and_again() -> None:
    lead = Server()
    with beating({"first:1": lead}):
        assert renewed_again_and_again(lead)


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(UnknownWorkerError("the lease has ended"), id="a lease that has ended"),
        pytest.param(NoMapError("no model yet"), id="a server that knows nothing yet"),
        pytest.param(WireError("not a message"), id="somebody else at the address"),
        pytest.param(ConnectionResetError(), id="a connection that breaks"),
    ],
)
def test_a_beat_that_fails_is_followed_by_others(refusal: Exception) -> None:
    lead = Server(refusal)
    with beating({"first:1": lead}):
        assert renewed_again_and_again(lead)


def test_the_server_that_leads_now_is_found() -> None:
    new_lead = Server()
    with beating({"first:1": Server(NotLeadError("another leads")), "second:1": new_lead}):
        assert renewed_again_and_again(new_lead)


def test_a_server_that_is_away_is_passed_over() -> None:
    other = Server()
    with beating({"second:1": other}):
        assert renewed_again_and_again(other)


def test_a_worker_that_was_replaced_learns_of_it() -> None:
    heartbeat = Heartbeat(dialled({"first:1": Server(ReplacedError("a newer one has joined"))}), SERVERS, RENEW, 0.001)
    heartbeat.start()
    heartbeat._thread.join(timeout=60)
    with pytest.raises(ReplacedError):
        heartbeat.check()
    heartbeat.stop()
