"""A server's checkpoint: one instant, whole or not used."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from gangline import ps
from gangline.ps.blocks import Tensor, spread
from gangline.ps.protocol.messages import Initialise, Join, Push
from gangline.ps.server.agreement import Agreement
from gangline.ps.server.coordinator import Coordinator
from gangline.ps.server.snapshot import COST_SHARE, Snapshots
from gangline.ps.server.store import Store
from gangline.ps.settings import Settings
from tests.ps.gang import free_address, make_replica, running_server_threads

TENSORS = (Tensor("a", "<f4", (4,)),)
SETTINGS = Settings(optimizer="momentum", learning_rate=1.0)


def make_store() -> Store:
    store = Store(Agreement(SETTINGS))
    store.initialise(Initialise(spread(TENSORS, ["a:1"]), (0,)), [np.zeros(4, np.float32)])
    return store


def make_coordinator(address: str = "b:1") -> Coordinator:
    return Coordinator(address, ("a:1",), Agreement(SETTINGS), lease_seconds=10.0)


def push(store: Store, sequence: int) -> int:
    message = Push("w", 1, sequence, sequence, 1, (0,), (0,))
    return store.push(message, store.find((0,), 1), [np.ones(4, np.float32)]).durable


def save(snapshots: Snapshots) -> None:
    snapshots.begin(0.0)
    snapshots.collect(wait=True)


def restored(directory: Path) -> Store:
    store = Store(Agreement(SETTINGS))
    assert Snapshots(directory, store, make_coordinator()).restore(0.0)
    return store


def test_values_optimizer_state_and_sequences_come_back(tmp_path: Path) -> None:
    store = make_store()
    push(store, 1)
    save(Snapshots(tmp_path, store, make_coordinator()))

    again = restored(tmp_path)
    push(again, 1)  # a repeat
    push(again, 2)
    push(store, 2)

    np.testing.assert_array_equal(again.blocks[0].value, store.blocks[0].value)
    np.testing.assert_array_equal(again.blocks[0].state["velocity"], store.blocks[0].state["velocity"])
    assert again.blocks[0].version == store.blocks[0].version


def test_a_snapshot_holds_the_instant_it_began_at(tmp_path: Path) -> None:
    store = make_store()
    push(store, 1)
    snapshots = Snapshots(tmp_path, store, make_coordinator())
    snapshots.begin(0.0)
    push(store, 2)
    snapshots.collect(wait=True)

    assert restored(tmp_path).blocks[0].sequences == {"w": (1, 1)}


def test_a_corrupt_snapshot_gives_way_to_the_one_before(tmp_path: Path) -> None:
    store = make_store()
    snapshots = Snapshots(tmp_path, store, make_coordinator())
    push(store, 1)
    save(snapshots)
    push(store, 2)
    save(snapshots)
    newest = max(tmp_path.iterdir())
    os.truncate(newest / "arrays.npz", 10)

    assert restored(tmp_path).blocks[0].sequences == {"w": (1, 1)}


def test_only_what_two_snapshots_hold_counts_as_durable(tmp_path: Path) -> None:
    store = make_store()
    snapshots = Snapshots(tmp_path, store, make_coordinator())
    assert push(store, 1) == 0
    save(snapshots)
    assert push(store, 2) == 0
    save(snapshots)

    assert push(store, 3) == 1


def test_the_first_snapshot_is_due_at_once_when_there_is_news(tmp_path: Path) -> None:
    store = make_store()
    save(Snapshots(tmp_path, store, make_coordinator()))

    again = Store(Agreement(SETTINGS))
    snapshots = Snapshots(tmp_path, again, make_coordinator(), longest_seconds=1000.0)
    snapshots.restore(0.0)
    assert not snapshots.due(time.monotonic())
    push(again, 1)
    assert snapshots.due(time.monotonic())


def test_later_ones_take_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store()
    snapshots = Snapshots(tmp_path, store, make_coordinator(), longest_seconds=1000.0)
    cost = 2.0
    clock = iter([100.0, 100.0 + cost, 103.0])  # the writer begins, ends, and is seen to have ended
    monkeypatch.setattr("gangline.ps.server.snapshot.time.monotonic", lambda: next(clock))
    snapshots.begin(100.0)
    snapshots.collect(wait=True)
    push(store, 1)

    assert not snapshots.due(103.0 + cost / COST_SHARE - 0.1)
    assert snapshots.due(103.0 + cost / COST_SHARE + 0.1)


def test_the_setting_is_the_longest_time_between_two(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, make_store(), make_coordinator(), longest_seconds=5.0)
    now = time.monotonic()
    snapshots.begin(now)
    snapshots.collect(wait=True)

    assert not snapshots.due(now + 4.9)  # nothing has changed
    assert snapshots.due(now + 5.1)


def test_leases_of_a_lead_without_pushes_are_kept_too(tmp_path: Path) -> None:
    store = make_store()
    snapshots = Snapshots(tmp_path, store, make_coordinator("a:1"), longest_seconds=1000.0)
    snapshots.begin(time.monotonic())
    snapshots.collect(wait=True)

    assert not snapshots.due(time.monotonic())
    assert snapshots.due(time.monotonic() + 100.0)


def test_workers_are_told_of_the_end_when_a_snapshot_holds_it(tmp_path: Path) -> None:
    address = free_address()
    with (
        running_server_threads([address], (address,), Settings(snapshot_seconds=999.0), tmp_path),
        ps.connect({"a": np.zeros(4, np.float32)}, replica=make_replica([address])) as session,
    ):
        for shard in session.shards(examples=30, size=10, epochs=1):
            for _ in shard.batches(10):
                session.push_pull({"a": np.ones(4, np.float32)})
        again = make_coordinator(address)
        Snapshots(tmp_path / address, Store(Agreement(Settings())), again).restore(0.0)

        assert again.progress().finished


def test_a_disk_that_fails_is_not_tried_all_the_time(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    snapshots = Snapshots(blocked, make_store(), make_coordinator(), longest_seconds=1000.0)
    now = time.monotonic()
    snapshots.begin(now)
    with pytest.raises(OSError, match="file"):
        snapshots.collect(wait=True)

    assert not snapshots.due(now + 999.0)
    assert snapshots.due(now + 1001.0)


def test_nothing_is_restored_from_an_empty_directory(tmp_path: Path) -> None:
    assert not Snapshots(tmp_path, Store(Agreement(SETTINGS)), make_coordinator()).restore(0.0)


def test_the_lead_keeps_what_it_knows(tmp_path: Path) -> None:
    coordinator = make_coordinator("a:1")
    coordinator.join(Join("w", TENSORS, 5), 0.0)
    save(Snapshots(tmp_path, make_store(), coordinator))

    again = make_coordinator("a:1")
    Snapshots(tmp_path, Store(Agreement(SETTINGS)), again).restore(0.0)

    assert again.map == coordinator.map
    assert again.progress().workers == ("w",)


def test_a_snapshot_that_cannot_be_written_is_an_error_and_the_next_one_is_tried(tmp_path: Path) -> None:
    store = make_store()
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    snapshots = Snapshots(blocked, store, make_coordinator())

    with pytest.raises(OSError, match="file"):
        save(snapshots)
    blocked.unlink()
    save(snapshots)

    assert restored(blocked).blocks
