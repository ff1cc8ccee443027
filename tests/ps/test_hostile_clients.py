"""Whatever one client sends, the server goes on serving the others."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from gangline import ps
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.authentication import PendingConnection
from gangline.ps.protocol.frames import HEADER, FrameReader, frame
from gangline.ps.server.acceptor import Acceptor
from gangline.ps.settings import Settings
from tests.ps.gang import JOB, connected, make_replica, running_servers

ONES = np.ones(4, np.float32)
BLOCK = m.MovedBlock(
    number=7, offset=0, dtype="<f4", size=4, version=0, closed=0, rebuilt=False, states=[], sequences={}
)


@contextmanager
def dialled(address: str, job: str = JOB) -> Iterator[tuple[socket.socket, FrameReader]]:
    with connected(address) as client:
        send(client, m.Hello(job=job, sender="somebody"))
        reader = FrameReader(client)
        reader.message()
        yield client, reader


def send(client: socket.socket, message: m.Request, payload: bytes = b"") -> None:
    client.sendall(frame(m.encode(message), len(payload)) + payload)


def is_closed(reader: FrameReader) -> bool:
    """Whether the server hangs up, after whatever it has still to say."""
    try:
        for _ in range(3):
            reader.message()
    except ConnectionError:
        return True
    return False


def trains(address: str) -> bool:
    with ps.connect({"w": np.zeros(4, np.float32)}, replica=make_replica([address])) as session:
        before = session.parameters["w"].copy()
        session.push_pull({"w": ONES})
        return not np.array_equal(before, session.parameters["w"])


def own_rule(value: np.ndarray, gradient: np.ndarray, state: dict[str, np.ndarray], learning_rate: float) -> None:
    raise ValueError("operands could not be broadcast together")


def bad_type(client: socket.socket) -> None:
    block = m.MovedBlock(
        number=0, offset=0, dtype="nonsense", size=4, version=0, closed=0, rebuilt=False, states=[], sequences={}
    )
    send(client, m.Install(block=block, training=Settings().training), ONES.tobytes())


def push_without_bases(client: socket.socket) -> None:
    send(client, m.Install(block=BLOCK, training=Settings().training), ONES.tobytes())
    push = m.Push(worker="x", incarnation=1, sequence=1, clock=1, map_version=0, blocks=(7,), bases=())
    send(client, push, ONES.tobytes())


def more_than_there_is(client: socket.socket) -> None:
    client.sendall(HEADER.pack(b"GL", 1, 0, 2, 1 << 36) + b"\x91\x01")


@pytest.mark.parametrize("act", [bad_type, push_without_bases], ids=lambda act: act.__name__)
def test_a_request_that_makes_no_sense_costs_its_sender_the_connection(act: Callable[[socket.socket], None]) -> None:
    with running_servers() as (address,):
        with dialled(address) as (client, reader):
            act(client)
            assert is_closed(reader)
        assert trains(address)


def test_nothing_is_set_aside_for_who_has_not_said_hello() -> None:
    with running_servers() as (address,):
        with connected(address) as client:
            more_than_there_is(client)
            assert client.recv(1) == b""
        assert trains(address)


def test_who_works_for_another_job_can_do_nothing() -> None:
    with running_servers() as (address,):
        with dialled(address, job="another") as (client, reader):
            send(client, m.AskMap())
            assert is_closed(reader)
        assert trains(address)


def test_a_server_that_can_accept_nobody_now_does_so_later(monkeypatch: pytest.MonkeyPatch) -> None:
    accept, refused = Acceptor.accept, []

    class Exhausted:
        def accept(self) -> None:
            raise OSError(24, "Too many open files")

    def at_first_not(self: Acceptor, listener: socket.socket, now: float) -> PendingConnection | None:
        refused.append(listener)
        return accept(self, listener if len(refused) > 1 else Exhausted(), now)  # type: ignore[arg-type]

    monkeypatch.setattr(Acceptor, "accept", at_first_not)
    with running_servers() as (address,):
        assert trains(address)
    assert len(refused) > 1


def test_an_optimizer_that_fails_is_told_to_the_worker() -> None:
    settings = {"optimizer": f"{__name__}:own_rule"}
    with running_servers(**settings) as (address,):
        session = ps.connect({"w": np.zeros(4, np.float32)}, replica=make_replica([address]))
        with pytest.raises(ps.OptimizerError, match="own_rule' failed: ValueError: operands"):
            session.push_pull({"w": ONES})
        session.abandon()


@pytest.mark.parametrize("scale", [math.nan, math.inf])
def test_a_scale_that_would_spoil_the_values_is_refused(scale: float) -> None:
    with (
        ps.connect({"w": np.zeros(4, np.float32)}) as session,
        pytest.raises(ps.SettingsError, match="finite"),
    ):
        session.push_pull({"w": ONES}, scale=scale)


def test_a_rate_without_bound_is_refused() -> None:
    with pytest.raises(ps.SettingsError, match="learning_rate must be a number above zero"):
        ps.Settings(learning_rate=math.inf)
