"""A job that begins again may find its servers at other addresses: training goes on from their snapshots."""

from pathlib import Path

import numpy as np

from gangline import ps
from gangline.ps.server.resizing import announce
from tests.ps.gang import dial, free_address, make_replica, running_server_threads

MODEL = {"a": np.zeros(4), "b": np.zeros(4)}
ONES = {name: np.ones(4) for name in MODEL}
SETTINGS = ps.Settings(learning_rate=1.0)


def move_snapshots(directory: Path, before: str, now: str) -> None:
    (directory / before).rename(directory / now)


def test_training_goes_on_when_all_servers_come_back_elsewhere(tmp_path: Path) -> None:
    before, now = (tuple(free_address() for _ in range(2)) for _ in range(2))
    with (
        running_server_threads(before, before, SETTINGS, tmp_path),
        ps.connect(MODEL, replica=make_replica(before)) as session,
    ):
        shards = session.shards(examples=4, size=2, epochs=1)
        next(shards)
        session.push_pull(ONES)
        next(shards)
    for old, new in zip(before, now, strict=True):
        move_snapshots(tmp_path, old, new)

    with (
        running_server_threads(now, now, SETTINGS, tmp_path),
        ps.connect(MODEL, replica=make_replica(now)) as session,
    ):
        assert session.progress().examples_done == 2
        session.push_pull(ONES)
        for name in MODEL:
            np.testing.assert_array_equal(session.parameters[name], np.full(4, -2.0))


def test_workers_find_a_server_that_comes_back_elsewhere_while_they_train(tmp_path: Path) -> None:
    lead, before, now = (free_address() for _ in range(3))
    with running_server_threads([lead], (lead, before), SETTINGS, tmp_path):
        with running_server_threads([before], (lead, before), SETTINGS, tmp_path):
            session = ps.connect(MODEL, replica=make_replica((lead, before)))
            session.push_pull(ONES)
        move_snapshots(tmp_path, before, now)
        with running_server_threads([now], (lead, now), SETTINGS, tmp_path), session:
            announce(now, (lead, now), dial)
            session.push_pull(ONES)
            session._servers.wait_for_servers()
            for name in MODEL:
                np.testing.assert_array_equal(session.parameters[name], np.full(4, -2.0))
