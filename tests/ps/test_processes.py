"""Real processes, really killed."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from gangline import ps
from gangline.runtime import rendezvous
from tests.ps.gang import (
    DEADLINE_SECONDS,
    JOB,
    ServerProcess,
    free_address,
    make_environment,
    make_replica,
    wait_until,
)

WORKER = Path(__file__).parent / "worker_program.py"
OPTIONS = ("--learning-rate", "1.0", "--snapshot-seconds", "0.1")
ZEROS = {"w": np.zeros(50, np.float32)}
ONES = {"w": np.ones(50, np.float32)}
StartWorker = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(free_address(), tmp_path / "checkpoints", *OPTIONS) as process:
        yield process


@pytest.fixture
def start_worker() -> Iterator[StartWorker]:
    """Starts workers of a server; those that are left at the end are killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(server: ServerProcess, index: int, *arguments: str) -> "subprocess.Popen[bytes]":
        environment = os.environ | make_environment("worker", index, [server.address])
        started.append(subprocess.Popen([sys.executable, str(WORKER), *arguments], env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def snapshots(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "checkpoints" / "ps-0").glob("step-*"))


def test_a_killed_server_comes_back_and_every_push_counts_once(server: ServerProcess) -> None:
    steps = 0
    with ps.connect(ZEROS, replica=make_replica([server.address])) as session:
        for _ in range(3):
            for _ in range(200):
                session.push_pull(ONES)
                steps += 1
            server.kill()
            for _ in range(20):  # the worker goes on with its own model
                session.push_pull(ONES)
                steps += 1
            assert session.parameters["w"][0] == -steps
            server.start()
            session._servers.wait_for_servers()
        session.pull()

        np.testing.assert_array_equal(session.parameters["w"], np.full(50, -float(steps)))
        assert session._servers.log.dropped == 0


@pytest.mark.parametrize(
    ("elements", "steps", "limits"),
    [
        pytest.param(50, 60, ps.Limits(retained_bytes=1), id="memory for few pushes"),
        pytest.param(2_500_000, 6, ps.Limits(retained_bytes=8 << 20), id="model larger than the memory for pushes"),
    ],
)
def test_a_killed_server_loses_no_confirmed_push_however_few_a_worker_can_keep(
    tmp_path: Path, elements: int, steps: int, limits: ps.Limits
) -> None:
    zeros, ones = {"w": np.zeros(elements, np.float32)}, {"w": np.ones(elements, np.float32)}
    with (
        ServerProcess(free_address(), tmp_path, "--learning-rate", "1.0", "--snapshot-seconds", "999") as server,
        ps.connect(zeros, replica=make_replica([server.address]), limits=limits) as session,
    ):
        for killed in (False, True):
            for _ in range(steps):
                session.push_pull(ones)
            if not killed:
                server.kill()
                server.start()
                session._servers.wait_for_servers()
        assert (session.parameters["w"] == -2.0 * steps).all()
        assert session._servers.log.dropped == 0


def test_without_a_server_a_worker_goes_on_up_to_its_limit(server: ServerProcess) -> None:
    rendezvous(peers=[server.address])
    limits = ps.Limits(outage_steps=10, server_timeout=0.3)
    session = ps.connect(ZEROS, replica=make_replica([server.address]), limits=limits)
    server.kill()

    for _ in range(10):
        session.push_pull(ONES)
    with pytest.raises(ps.ServerLostError, match=server.address):
        session.push_pull(ONES)
    session.abandon()


def test_a_corrupt_snapshot_costs_nothing_that_workers_still_know(server: ServerProcess, tmp_path: Path) -> None:
    with ps.connect(ZEROS, replica=make_replica([server.address])) as session:
        for _ in range(50):
            session.push_pull(ONES)
        server.wait_for_snapshot()
        for _ in range(50):
            session.push_pull(ONES)
        server.kill()
        os.truncate(snapshots(tmp_path)[-1] / "arrays.npz", 100)
        server.start()
        session._servers.wait_for_servers()

        np.testing.assert_array_equal(session.parameters["w"], np.full(50, -100.0))


def test_a_server_that_lost_its_disk_is_rebuilt_from_a_worker(server: ServerProcess, tmp_path: Path) -> None:
    with ps.connect(ZEROS, replica=make_replica([server.address])) as session:
        for _ in range(30):
            session.push_pull(ONES)
        server.kill()
        (tmp_path / "checkpoints").rename(tmp_path / "lost")
        session.push_pull(ONES)
        server.start()
        session._servers.wait_for_servers()
        session.push_pull(ONES)

        np.testing.assert_array_equal(session.parameters["w"], np.full(50, -32.0))
        with ps.connect(ZEROS, replica=make_replica([server.address], 1)) as newcomer:
            np.testing.assert_array_equal(newcomer.parameters["w"], np.full(50, -32.0))


def test_every_example_is_seen_although_a_worker_and_the_server_are_killed(
    start_worker: StartWorker, tmp_path: Path
) -> None:
    with ServerProcess(free_address(), tmp_path / "checkpoints", *OPTIONS, "--lease-seconds", "2") as server:
        notes = [tmp_path / f"notes-{index}" for index in range(2)]
        go_on = tmp_path / "go-on"
        workers = [start_worker(server, index, str(notes[index]), "600", "2", str(go_on)) for index in range(2)]
        wait_until(lambda: all(note.exists() for note in notes), "both workers are in the middle of a shard")
        workers[0].kill()
        workers[0].wait()
        server.kill()
        server.start()
        go_on.touch()

        assert workers[1].wait(2 * DEADLINE_SECONDS) == 0
    seen = Counter(word for note in notes for word in note.read_text().split())
    assert set(seen) == {f"{epoch}:{index}" for epoch in range(2) for index in range(600)}


def test_servers_that_live_much_shorter_than_the_time_between_snapshots_get_on(
    start_worker: StartWorker, tmp_path: Path
) -> None:
    """Worker and server are killed together, so that only what is on disk counts."""
    options = ("--learning-rate", "1.0", "--snapshot-seconds", "999", "--lease-seconds", "2")
    done = [0]

    def progress() -> int:
        with ps.connect(ZEROS, replica=make_replica([server.address], 1), observer=True) as observer:
            return observer.progress().examples_done

    with ServerProcess(free_address(), tmp_path / "checkpoints", *options) as server:
        for life in range(3):
            worker = start_worker(server, 0, str(tmp_path / f"notes-{life}"), "1000000", "1")
            wait_until(lambda: progress() > done[-1] + 40, "some shards are done")
            done.append(progress())
            server.wait_for_snapshot()
            worker.kill()
            worker.wait()
            server.kill()
            server.start()
        done.append(progress())

    assert done == sorted(done)
    assert done[-1] > 120


def test_a_stopped_worker_leaves_within_its_grace_and_its_shard_goes_on(
    server: ServerProcess, start_worker: StartWorker, tmp_path: Path
) -> None:
    notes = [tmp_path / f"notes-{index}" for index in range(2)]
    leaving = start_worker(server, 0, str(notes[0]), "600", "1")
    wait_until(notes[0].exists, "the worker trains")
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(DEADLINE_SECONDS) == 0

    assert start_worker(server, 1, str(notes[1]), "600", "1").wait(2 * DEADLINE_SECONDS) == 0
    seen = Counter(word for note in notes for word in note.read_text().split())
    assert set(seen.values()) == {1}
    assert len(seen) == 600


def test_a_new_server_gets_its_share_by_itself(server: ServerProcess, tmp_path: Path) -> None:
    model = {f"t{number}": np.zeros(100, np.float32) for number in range(4)}
    ones = {name: np.ones(100, np.float32) for name in model}
    with ps.connect(model, replica=make_replica([server.address])) as session:
        session.push_pull(ones)
        address = free_address()
        second = ServerProcess(address, tmp_path / "checkpoints", *OPTIONS, cluster=[server.address, address])
        steps = 1

        def has_joined() -> bool:
            nonlocal steps
            session.push_pull(ones)
            steps += 1
            return len(session._servers.peers) == 2

        wait_until(has_joined, "the new server has blocks")
        for value in session.parameters.values():
            np.testing.assert_array_equal(value, np.full(100, -float(steps), np.float32))
    assert second.stop() == 0


@contextmanager
def running(addresses: Sequence[str], directory: Path, *options: str) -> Iterator[list[ServerProcess]]:
    """The servers of one job; those that run at the end are killed."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(ServerProcess(address, directory, *options, cluster=addresses)) for address in addresses
        ]


def trained_under_bsp(directory: Path, *, lead_leaves: bool) -> bytes:
    """Two workers and three servers; the first of them is removed halfway, or is not. The final values to the bit."""
    addresses = [free_address() for _ in range(3)]
    options = ("--consistency", "bsp", "--learning-rate", "0.1", "--snapshot-seconds", "0.1", "--lease-seconds", "120")
    model = {f"t{number}": np.zeros(100, np.float32) for number in range(6)}

    def train(index: int) -> None:
        dice = np.random.default_rng(index)
        while sessions[index].step < 60:
            values = sessions[index].parameters
            sessions[index].push_pull({name: dice.normal(size=100).astype(np.float32) + values[name] for name in model})

    with running(addresses, directory, *options) as servers, ExitStack() as stack:
        sessions = [
            stack.enter_context(ps.connect(model, replica=make_replica(addresses, index))) for index in range(2)
        ]
        threads = stack.enter_context(ThreadPoolExecutor())
        training = [threads.submit(train, index) for index in range(2)]
        wait_until(lambda: sessions[0].step > 20 or training[0].done(), "the training is halfway")
        if lead_leaves:
            ps.resize(addresses[1:], job=JOB)
            assert servers[0].stop() == 0
        for worker in training:
            worker.result(2 * DEADLINE_SECONDS)
        with ps.connect(model, replica=make_replica(addresses, 2), observer=True) as newcomer:
            want = addresses[1:] if lead_leaves else addresses
            assert [peer.address for peer in newcomer._servers.peers] == want
            return b"".join(newcomer.parameters[name].tobytes() for name in model)


def test_removing_the_lead_in_the_middle_of_training_changes_no_bit(tmp_path: Path) -> None:
    stays = trained_under_bsp(tmp_path / "stays", lead_leaves=False)
    leaves = trained_under_bsp(tmp_path / "leaves", lead_leaves=True)

    assert stays == leaves


@pytest.mark.parametrize("leaves", [0, 1], ids=["the lead", "another server"])
def test_a_server_that_alone_is_told_to_stop_leaves_its_blocks_to_the_others(tmp_path: Path, leaves: int) -> None:
    addresses = [free_address() for _ in range(3)]
    model = {f"t{number}": np.zeros(100, np.float32) for number in range(6)}
    ones = {name: np.ones(100, np.float32) for name in model}
    with (
        running(addresses, tmp_path, *OPTIONS) as servers,
        ps.connect(model, replica=make_replica(addresses)) as session,
    ):
        session.push_pull(ones)
        assert servers[leaves].stop() == 0

        session.push_pull(ones)
        session._servers.wait_for_servers()
        assert sorted(peer.address for peer in session._servers.peers) == sorted(
            address for address in addresses if address != addresses[leaves]
        )
        for value in session.parameters.values():
            np.testing.assert_array_equal(value, np.full(100, -2.0, np.float32))


def test_servers_that_are_told_to_stop_together_lose_nothing(tmp_path: Path) -> None:
    addresses = [free_address() for _ in range(2)]
    model = {f"t{number}": np.zeros(100, np.float32) for number in range(4)}
    ones = {name: np.ones(100, np.float32) for name in model}
    with running(addresses, tmp_path, *OPTIONS) as servers:
        session = ps.connect(model, replica=make_replica(addresses))
        session.push_pull(ones)
        for server in servers:
            server.tell_to_stop()
        session.close()
        assert [server.stop() for server in servers] == [0, 0]
        for server in servers:
            server.start()
        with ps.connect(model, replica=make_replica(addresses, 1)) as later:
            assert all((value == -1).all() for value in later.parameters.values())


@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_a_lead_that_was_removed_and_starts_again_takes_its_place_behind_the_others(tmp_path: Path, disk: str) -> None:
    addresses = first, second = free_address(), free_address()
    home = tmp_path / "first"
    model = {f"t{number}": np.zeros(100, np.float32) for number in range(4)}
    ones = {name: np.ones(100, np.float32) for name in model}
    with (
        ServerProcess(first, home, *OPTIONS, cluster=addresses) as removed,
        ServerProcess(second, tmp_path / "second", *OPTIONS, cluster=addresses),
        ps.connect(model, replica=make_replica(addresses)) as session,
    ):
        session.push_pull(ones)
        ps.resize([second], job=JOB)
        session.push_pull(ones)
        removed.kill()
        if disk == "lost":
            shutil.rmtree(home)
        removed.start()

        def is_back() -> bool:
            with ps.connect(model, replica=make_replica(addresses, 1)) as newcomer:
                assert newcomer.parameters["t0"][0] == -2, "the newcomer trains another model"
                return len(newcomer._servers.peers) == 2

        wait_until(is_back, "the first server has blocks again")
        session.push_pull(ones)
        for value in session.parameters.values():
            np.testing.assert_array_equal(value, np.full(100, -3.0, np.float32))
        session.progress()
        assert [peer.address for peer in session._servers.peers] == [second, first]


def test_killed_processes_leave_no_shared_memory_and_no_socket(
    server: ServerProcess, start_worker: StartWorker, tmp_path: Path
) -> None:
    before = set(os.listdir("/dev/shm"))  # noqa: PTH208  # names are all that is compared
    worker = start_worker(server, 0, str(tmp_path / "notes"), "100000", "1")
    wait_until((tmp_path / "notes").exists, "the worker trains")

    worker.kill()
    worker.wait()
    server.kill()

    left = {name for name in set(os.listdir("/dev/shm")) - before if "gangline" in name}  # noqa: PTH208  # as above
    assert not left
    assert server.address not in Path("/proc/net/unix").read_text()


def test_a_server_told_to_stop_writes_a_last_snapshot(tmp_path: Path) -> None:
    options = ("--learning-rate", "1", "--snapshot-seconds", "999")
    with ServerProcess(free_address(), tmp_path / "checkpoints", *options) as server:
        session = ps.connect(ZEROS, replica=make_replica([server.address]))
        for _ in range(7):
            session.push_pull(ONES)
        session.abandon()
        assert server.stop() == 0

        server.start()
        with ps.connect(ZEROS, replica=make_replica([server.address], 1)) as later:
            assert later.parameters["w"][0] == -7


def test_many_workers_join_at_once(server: ServerProcess) -> None:
    sessions: list[ps.Session] = []
    threads = [
        threading.Thread(
            target=lambda index=index: sessions.append(ps.connect(ZEROS, replica=make_replica([server.address], index)))
        )
        for index in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert len(sessions) == 8
    assert len(sessions[0].progress().workers) == 8
    for session in sessions:
        session.close()


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param(["--optimizer", "adagrad"], "'adagrad'", id="unknown optimizer"),
        pytest.param(["--consistency", "sync"], "'sync'", id="unknown consistency"),
        pytest.param(["--learning-rate", "-1"], "above zero", id="negative rate"),
        pytest.param([], "GANGLINE_ADDRESS", id="no address"),
    ],
)
def test_a_server_that_cannot_begin_says_why(options: list[str], want: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "gangline.ps", *options], capture_output=True, text=True, check=False, timeout=30
    )

    assert result.returncode == 2
    assert want in result.stderr
