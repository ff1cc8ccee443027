"""Servers come and go while training goes on; the lead among them."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count

import numpy as np
import pytest

from gangline import ps
from gangline.ps.errors import ParameterServerError
from gangline.ps.server.resizing import spread_over
from gangline.ps.worker.session import Session
from tests.ps.gang import JOB, free_address, make_replica, running_server_threads
from tests.ps.interleaving import Failure, Killed, Machines, TurnLink

SERVERS = ("a:1", "b:1", "c:1")
MODEL = {f"t{number}": np.zeros(6, np.float32) for number in range(6)}
ONES = {name: np.ones_like(value) for name, value in MODEL.items()}
STEPS = 6
MakeMachines = Callable[[int, str], Machines]
PLAN = {"examples": 24, "size": 2, "epochs": 1}


@pytest.fixture
def make_machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeMachines]:
    """Machines whose time the workers live by."""

    def make(seed: int, consistency: str) -> Machines:
        dice = random.Random(seed)
        settings = ps.Settings(learning_rate=1.0, consistency=consistency, lease_seconds=1e9)
        machines = Machines(SERVERS, settings, dice.choice)
        monkeypatch.setattr("gangline.ps.worker.server_group.time", machines)
        monkeypatch.setattr("gangline.ps.worker.server_group.RETRY_SECONDS", 0.0)
        made.append(machines)
        return machines

    made: list[Machines] = []
    yield make
    for machines in made:
        for session in machines.sessions:
            session.abandon()


def train_rounds(session: Session, seed: int) -> None:
    """Steps whose sums depend on their order, and on the values that were pulled, to the bit."""
    dice = np.random.default_rng(seed)
    for _ in range(STEPS):
        session.push_pull(
            {
                name: dice.normal(size=value.shape).astype(np.float32) + value
                for name, value in session.parameters.items()
            }
        )
    session._servers.wait_for_servers()


def train_shards(session: Session, seen: list[int]) -> None:
    for shard in session.shards(**PLAN):
        for batch in shard.batches(2):
            session.push_pull(ONES)
            seen += batch.tolist()


def remove_lead_twice(machines: Machines) -> None:
    """Servers that have left are gone at once, whatever was under way to them."""
    for leaving, servers in (("a:1", ["b:1", "c:1"]), ("b:1", ["c:1"])):
        spread_over(servers, partial(TurnLink, machines))
        machines.stop(leaving)


def try_to_move(machines: Machines, failure: Failure) -> None:
    with suppress(OSError, ParameterServerError):
        spread_over(["b:1", "c:1"], partial(TurnLink, machines, failure=failure))


def values(session: Session) -> bytes:
    return b"".join(value.tobytes() for value in session.parameters.values())


@pytest.mark.parametrize("seed", range(30))
def test_under_bsp_a_lead_that_leaves_changes_no_bit(make_machines: MakeMachines, seed: int) -> None:
    results = []
    for moves in (0, 2):
        machines = make_machines(seed, "bsp")
        sessions = [machines.session(MODEL, SERVERS[:1], name) for name in ("w0", "w1")]
        actions = {f"w{n}": partial(train_rounds, session, n) for n, session in enumerate(sessions)}
        machines.turns.run(actions | ({"mover": partial(remove_lead_twice, machines)} if moves else {}))
        results.append({values(session) for session in sessions})

    assert len(results[0] | results[1]) == 1


@pytest.mark.parametrize("seed", range(60))
def test_every_push_and_every_shard_counts_once_while_leads_leave(make_machines: MakeMachines, seed: int) -> None:
    machines = make_machines(seed, "async")
    sessions = [machines.session(MODEL, SERVERS[:1], name) for name in ("w0", "w1")]
    seen: list[int] = []
    machines.turns.run(
        {f"w{n}": partial(train_shards, session, seen) for n, session in enumerate(sessions)}
        | {"newcomer": lambda: train_shards(machines.session(MODEL, SERVERS, "w2"), seen)}
        | {"mover": partial(remove_lead_twice, machines)}
    )

    assert Counter(seen) == Counter(range(24))
    newcomer = machines.session(MODEL, SERVERS[1:], "w3")
    assert [peer.address for peer in newcomer._servers.peers] == ["c:1"]
    assert {float(value) for array in newcomer.parameters.values() for value in array} == {-12.0}


@pytest.mark.parametrize("carried_out", [False, True], ids=["before it arrives", "after it was carried out"])
@pytest.mark.parametrize("error", [Killed(), ConnectionResetError("cut")], ids=["the mover dies", "its line is cut"])
def test_nothing_is_lost_at_whatever_message_a_move_fails(
    make_machines: MakeMachines, error: BaseException, carried_out: bool
) -> None:
    failed_at = set()
    for number in count(1):
        failure = Failure(error, number, carried_out=carried_out)
        machines = make_machines(number, "async")
        sessions = [machines.session(MODEL, SERVERS[:1], name) for name in ("w0", "w1")]
        seen: list[int] = []

        machines.turns.run(
            {f"w{n}": partial(train_shards, session, seen) for n, session in enumerate(sessions)}
            | {"mover": partial(try_to_move, machines, failure)}
        )
        failed_at.add(failure.at_message)
        assert Counter(seen) == Counter(range(24)), failure.at_message
        for session in sessions:
            session.pull()
            assert {float(value) for array in session.parameters.values() for value in array} == {-12.0}
        spread_over(["c:1", "b:1"], partial(TurnLink, machines))  # and the next one succeeds
        sessions[0].push_pull(ONES)
        assert {float(value) for array in sessions[0].parameters.values() for value in array} == {-13.0}
        if not failure.at_message:
            break
    assert failed_at >= {"ProposeServers", "Freeze", "Install", "HandOver", "TakeOver", "Commit", "Adopt"}


@pytest.mark.parametrize("consistency", ["async", "bsp"])
def test_the_lead_leaves_and_comes_back(consistency: str) -> None:
    first, second, third = addresses = [free_address() for _ in range(3)]
    settings = ps.Settings(learning_rate=1.0, consistency=consistency)
    with (
        running_server_threads(addresses, (first,), settings),
        ps.connect(MODEL, replica=make_replica([first])) as session,
    ):
        steps = 0
        for servers in ([first, second, third], [second, third], [third, second], [third], [first, third]):
            ps.resize(servers, job=JOB)
            for _ in range(3):
                session.push_pull(ONES)
                steps += 1
            session.progress()  # a lead that keeps its blocks is not missed before it is asked
            assert [peer.address for peer in session._servers.peers] == servers
            assert {float(value) for array in session.parameters.values() for value in array} == {-float(steps)}


def test_servers_that_take_no_part_cannot_be_resized_to() -> None:
    pending = free_address()
    with (
        running_server_threads([pending], (free_address(),), ps.Settings()),
        pytest.raises(ps.ServerLostError, match="takes part in a training"),
    ):
        ps.resize([pending], job=JOB)
