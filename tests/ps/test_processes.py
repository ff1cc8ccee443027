"""Real processes, really killed."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gangline import ps
from gangline.runtime import rendezvous
from tests.ps.gang import ServerProcess, free_address, make_environment, make_replica, wait_until

WORKER = Path(__file__).parent / "worker_program.py"
OPTIONS = ("--learning-rate", "1.0", "--snapshot-seconds", "0.1")
ZEROS = {"w": np.zeros(50, np.float32)}
ONES = {"w": np.ones(50, np.float32)}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(free_address(), tmp_path / "checkpoints", *OPTIONS)
    yield process
    process.kill()


def start_worker(server: ServerProcess, index: int, *arguments: str) -> "subprocess.Popen[bytes]":
    environment = os.environ | make_environment("worker", index, [server.address])
    return subprocess.Popen([sys.executable, str(WORKER), *arguments], env=environment)


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
        pytest.param(18_000_000, 6, ps.Limits(), id="model larger than the memory for pushes"),
    ],
)
def test_a_killed_server_loses_no_confirmed_push_however_few_a_worker_can_keep(
    tmp_path: Path, elements: int, steps: int, limits: ps.Limits
) -> None:
    server = ServerProcess(free_address(), tmp_path, "--learning-rate", "1.0", "--snapshot-seconds", "999")
    zeros, ones = {"w": np.zeros(elements, np.float32)}, {"w": np.ones(elements, np.float32)}
    with ps.connect(zeros, replica=make_replica([server.address]), limits=limits) as session:
        for killed in (False, True):
            for _ in range(steps):
                session.push_pull(ones)
            if not killed:
                server.kill()
                server.start()
                session._servers.wait_for_servers()
        assert (session.parameters["w"] == -2.0 * steps).all()
        assert session._servers.log.dropped == 0
    server.kill()


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
        first = snapshots(tmp_path)
        for _ in range(50):
            session.push_pull(ONES)
        wait_until(lambda: len(snapshots(tmp_path)) == 2 and snapshots(tmp_path)[0] not in first, "two new snapshots")
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
    server: ServerProcess, tmp_path: Path
) -> None:
    notes = [tmp_path / f"notes-{index}" for index in range(2)]
    workers = [start_worker(server, index, str(notes[index]), "600", "2") for index in range(2)]
    wait_until(lambda: all(note.exists() for note in notes), "both workers train")
    workers[0].kill()
    workers[0].wait()
    server.kill()
    server.start()

    assert workers[1].wait(60) == 0
    seen = Counter(word for note in notes for word in note.read_text().split())
    assert set(seen) == {f"{epoch}:{index}" for epoch in range(2) for index in range(600)}


def test_a_stopped_worker_leaves_within_its_grace_and_its_shard_goes_on(server: ServerProcess, tmp_path: Path) -> None:
    notes = [tmp_path / f"notes-{index}" for index in range(2)]
    leaving = start_worker(server, 0, str(notes[0]), "600", "1")
    wait_until(notes[0].exists, "the worker trains")
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(10) == 0

    assert start_worker(server, 1, str(notes[1]), "600", "1").wait(60) == 0
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


def test_killed_processes_leave_no_shared_memory_and_no_socket(server: ServerProcess, tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm"))  # noqa: PTH208 - names are all that is compared
    worker = start_worker(server, 0, str(tmp_path / "notes"), "100000", "1")
    wait_until((tmp_path / "notes").exists, "the worker trains")

    worker.kill()
    worker.wait()
    server.kill()

    left = {name for name in set(os.listdir("/dev/shm")) - before if "gangline" in name}  # noqa: PTH208 - as above
    assert not left
    assert server.address not in Path("/proc/net/unix").read_text()


def test_a_server_told_to_stop_writes_a_last_snapshot(tmp_path: Path) -> None:
    server = ServerProcess(
        free_address(), tmp_path / "checkpoints", "--learning-rate", "1", "--snapshot-seconds", "999"
    )
    session = ps.connect(ZEROS, replica=make_replica([server.address]))
    for _ in range(7):
        session.push_pull(ONES)
    session.abandon()
    assert server.stop() == 0

    server.start()
    with ps.connect(ZEROS, replica=make_replica([server.address], 1)) as later:
        assert later.parameters["w"][0] == -7
    server.kill()


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
