"""A server's state on disk: its blocks with their sequences, the map and, on the lead, all that the lead knows.

Taken without stopping the server: the arrays are pinned (see store.py) and written by another thread. Kept by
runtime.Checkpoints, so that a snapshot is whole or absent and a corrupt one gives way to the one before it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from gangline.ps.blocks import Array, readdressed
from gangline.ps.protocol.lead_state import LeadState
from gangline.ps.protocol.messages import MovedBlock
from gangline.ps.server.coordinator import Coordinator
from gangline.ps.server.store import Identity, Pin, Store
from gangline.ps.settings import Training
from gangline.runtime import Checkpoints, load_arrays, save_arrays

KEEP = 2
# Of the time, spent on writing. A server that is killed loses what it has of workers that are gone too since the last.
COST_SHARE = 0.05
LEASES_SECONDS = 1.0
STATE_FILE = "state.msgpack"


class SnapshotState(msgspec.Struct, array_like=True):
    """What is not an array."""

    map_version: int
    blocks: list[MovedBlock]
    handled: dict[str, Identity]
    lead: LeadState
    training: Training | None
    servers: tuple[str, ...] = ()


class Snapshots:
    """Takes and restores the snapshots of one server."""

    def __init__(
        self, directory: Path, store: Store, coordinator: Coordinator, *, longest_seconds: float = math.inf
    ) -> None:
        self._checkpoints = Checkpoints(directory, keep=KEEP, to="")
        self._store = store
        self._store.keeps_snapshots = True
        self._coordinator = coordinator
        self._next = 1 + max((checkpoint.step for checkpoint in self._checkpoints.all()), default=0)
        self._writer: threading.Thread | None = None
        self._pins: list[Pin] = []
        self._handled: dict[str, Identity] = {}
        self._previous: dict[str, Identity] = {}
        self._error: BaseException | None = None
        self._written = (-1, 0)
        self._longest_seconds = longest_seconds
        self._cost_seconds = 0.0
        self._latest_due = time.monotonic() + longest_seconds
        self._soonest_due = time.monotonic()
        self._holds_end = False

    def restore(self, now: float) -> bool:
        """Load the newest snapshot that is whole; False when there is none."""
        checkpoint = self._checkpoints.latest()
        if checkpoint is None:
            return False
        state = msgspec.msgpack.decode((checkpoint.path / STATE_FILE).read_bytes(), type=SnapshotState)
        if state.training and not self._store.agreement.settled:
            self._store.agreement.settle(state.training)
        arrays = load_arrays(checkpoint.path)
        for block in state.blocks:
            names = ["value", *(name for name, _, _ in block.states)]
            self._store.install(block, [arrays[f"{block.number}.{name}"] for name in names])
        self._store.map_version = state.map_version
        self._store.handled = dict(state.handled)
        if state.lead.map:
            # A job that was halted, or begins another attempt, may find its servers elsewhere.
            state.lead.map = readdressed(state.lead.map, state.servers, self._coordinator.servers)
        self._coordinator.restore(state.lead, now)
        self._coordinator.end_kept = self._coordinator.progress().finished
        self._written = (self._store.changes, self._coordinator.map_version)
        return True

    @property
    def busy(self) -> bool:
        """Whether one is being written."""
        return self._writer is not None

    def due(self, now: float) -> bool:
        """Whether it is time for one: when there is news as often as the cost allows, at once after a start.

        So a server that lives long enough to come back and to write one has made progress, however short that is.
        """
        news = self._store.changes != self._written[0]
        # The lead has news without pushes: leases pass. They must do so even if it never lives for a whole one.
        leases = self._coordinator.leads and now >= self._soonest_due + LEASES_SECONDS
        return now >= self._latest_due or (now >= self._soonest_due and news) or leases

    def begin(self, now: float) -> None:
        """Start writing the state of this instant; does nothing while one is being written or nothing changed."""
        self._latest_due = now + self._longest_seconds
        state_now = (self._store.changes, self._coordinator.map_version)
        # The lead always has news: leases and clocks.
        if self._writer or not (state_now != self._written or self._coordinator.leads or self._store.snapshot_wanted):
            return
        self._store.snapshot_wanted = False
        self._written = state_now
        self._holds_end = self._coordinator.progress().finished
        arrays: dict[str, Array] = {}
        blocks = [block.describe() for block in self._store.blocks.values()]
        for block in self._store.blocks.values():
            arrays[f"{block.number}.value"] = block.value
            arrays |= {f"{block.number}.{name}": array for name, array in block.state.items()}
            block.pin.readers += 1
            self._pins.append(block.pin)
        self._handled = dict(self._store.handled)
        agreement = self._store.agreement
        training = agreement.training if agreement.settled else None
        state = SnapshotState(
            self._store.map_version,
            blocks,
            self._handled,
            self._coordinator.state_to_keep(now),
            training,
            self._coordinator.servers,
        )
        self._writer = threading.Thread(target=self._write, args=(_writing(state, arrays),), name="snapshot")
        self._writer.start()

    def collect(self, *, wait: bool = False) -> bool:
        """Take note of a snapshot that has been written, if one has; raises what went wrong while writing it."""
        if self._writer is None or (self._writer.is_alive() and not wait):
            return False
        self._writer.join()
        self._writer = None
        for pin in self._pins:
            pin.readers -= 1
        self._pins = []
        self._soonest_due = time.monotonic() + self._cost_seconds / COST_SHARE
        if self._error:
            error, self._error = self._error, None
            self._written = (-1, 0)
            self._soonest_due = self._latest_due
            self._store.disk_fails = True
            raise error
        self._store.disk_fails = False
        self._coordinator.end_kept = self._holds_end
        # Only what two snapshots hold counts as durable: the newest may turn out corrupt.
        self._store.durable, self._previous = self._previous, self._handled
        return True

    def _write(self, write: Callable[[Path], None]) -> None:
        began = time.monotonic()
        try:
            self._checkpoints.save(self._next, write)
            self._next += 1
        except BaseException as error:  # noqa: BLE001  # handed to the server's thread, which raises it
            self._error = error
        self._cost_seconds = time.monotonic() - began


def _writing(state: SnapshotState, arrays: dict[str, Array]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / STATE_FILE).write_bytes(msgspec.msgpack.encode(state))
        save_arrays(path, arrays)

    return write
