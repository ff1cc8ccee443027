"""The blocks one server holds: values, optimizer state, and which push of which worker was applied last.

The service calls it from one thread, so there are no locks. Readers that outlive a call (a reply half sent, a snapshot
being written) *pin* what they read; a block that is pinned is copied before its next change, and only then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from gangline.ps.blocks import Array
from gangline.ps.consistency import Mode
from gangline.ps.errors import (
    MissingBlocksError,
    NonFiniteGradientError,
    OldMapError,
    OptimizerError,
    ReplacedError,
    ShapeMismatchError,
)
from gangline.ps.optimizers import BUILT_IN, State, state_arrays
from gangline.ps.protocol.messages import (
    AskPosition,
    Initialise,
    MovedBlock,
    PendingPush,
    Persist,
    Persisted,
    Position,
    Push,
    Pushed,
)
from gangline.ps.server.agreement import Agreement
from gangline.ps.settings import NonFinitePolicy

Identity = tuple[int, int]  # incarnation and sequence: ordered as pushes are
BEFORE_ALL: Identity = (0, 0)


@dataclass(slots=True)
class Pin:
    """Counts those who still read one generation of a block's arrays."""

    readers: int = 0


@dataclass(slots=True)
class HeldBlock:
    """One block as a server holds it."""

    number: int
    offset: int
    value: Array
    state: State = field(default_factory=dict)
    version: int = 0
    sequences: dict[str, Identity] = field(default_factory=dict)
    pin: Pin = field(default_factory=Pin)
    closed: int = 0
    pending: dict[int, dict[tuple[str, Identity], tuple[Array, float]]] = field(default_factory=dict)
    frozen_until: float = 0.0
    frozen_by: object = None
    rebuilt: bool = False

    def make_writable(self) -> None:
        """Step aside from readers: go on with copies, theirs stay as they are."""
        if self.pin.readers:
            self.value = self.value.copy()
            self.state = {name: array.copy() for name, array in self.state.items()}
            self.pin = Pin()

    def describe(self) -> MovedBlock:
        """All but the bytes, and but the pushes that wait: a snapshot leaves those to the workers to repeat."""
        states = [(name, array.dtype.str, array.size) for name, array in self.state.items()]
        return MovedBlock(
            number=self.number,
            offset=self.offset,
            dtype=self.value.dtype.str,
            size=self.value.size,
            version=self.version,
            closed=self.closed,
            rebuilt=self.rebuilt,
            states=states,
            sequences=dict(self.sequences),
        )

    def pack(self) -> tuple[MovedBlock, list[Array]]:
        """Everything, for another server: the description and the arrays in its order."""
        waiting = [
            (PendingPush(number, worker, *identity, scale), gradient)
            for number, contributions in self.pending.items()
            for (worker, identity), (gradient, scale) in contributions.items()
        ]
        moved = msgspec.structs.replace(self.describe(), pending=[push for push, _ in waiting])
        return moved, [self.value, *self.state.values(), *(gradient for _, gradient in waiting)]


class Store:
    """The blocks of one server and the rule by which pushes change them."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self._stopped = ""
        self.blocks: dict[int, HeldBlock] = {}
        self.map_version = 0
        self.handled: dict[str, Identity] = {}
        self.durable: dict[str, Identity] = {}
        self.keeps_snapshots = False
        self.snapshot_wanted = False
        self.disk_fails = False
        self.changes = 0

    def initialise(self, message: Initialise, values: Sequence[Array]) -> None:
        """Give blocks their first values; those that have values keep them."""
        if message.training:
            self.agreement.settle(message.training)
        block_map, numbers = message.map, message.blocks
        self.map_version = max(self.map_version, block_map.version)
        for number, value in zip(numbers, values, strict=True):
            if number not in self.blocks:
                offset = block_map.blocks[number].offset
                self.blocks[number] = HeldBlock(number, offset, value.copy(), rebuilt=message.rebuilt)
                self.changes += 1

    def find(self, numbers: Sequence[int], map_version: int, *, to_change: bool = False) -> list[HeldBlock]:
        """The blocks asked for; refuses when one is not here or, if they are to change, is about to leave."""
        try:
            held = [self.blocks[number] for number in numbers]
        except KeyError as error:
            if map_version < self.map_version:
                raise OldMapError(f"map {map_version} is old; {self.map_version} is in force") from error
            raise MissingBlocksError(f"block {error} has no value on this server") from error
        if to_change and any(block.frozen_until for block in held):
            raise OldMapError(f"map {map_version} is being replaced: a block is on its way to another server")
        return held

    def push(self, push: Push, held: Sequence[HeldBlock], gradients: Sequence[Array]) -> Pushed:
        """Apply a push once; a repeat changes nothing and is answered like the first time."""
        self._check_alive()
        if not self._all_finite(push, gradients):
            return self._answer(push, held, 0, applied=False)
        if self.agreement.rule.mode is Mode.BSP:
            self._collect(push, held, gradients)
            return self._answer(push, held, 0, applied=True)
        staleness = max((block.version - base for block, base in zip(held, push.bases, strict=True)), default=0)
        weight = 1.0 if push.replay else self.agreement.rule.weight(staleness)
        identity = (push.incarnation, push.sequence)
        for block, gradient in zip(held, gradients, strict=True):
            if self._is_news(block, push.worker, identity):
                if weight:
                    self._apply(block, gradient, push.scale * weight)
                block.sequences[push.worker] = identity
        if push.final:
            self.handled[push.worker] = identity
        return self._answer(push, held, max(0, staleness), applied=weight > 0)

    def close_rounds(self, held: Sequence[HeldBlock], clock: int) -> None:
        """Under bsp: apply the mean of each round up to `clock`, oldest first, in the workers' order."""
        for block in held:
            for number in sorted(number for number in block.pending if number <= clock):
                self._close(block, block.pending.pop(number))
            block.closed = max(block.closed, clock)

    def durable_of(self, worker: str, incarnation: int) -> int:
        """The last push of this process that need not be kept any longer.

        Without snapshots that is the last one handled: a server that dies then loses all, and is rebuilt from values.
        """
        durable = (self.durable if self.keeps_snapshots else self.handled).get(worker, BEFORE_ALL)
        return durable[1] if durable[0] == incarnation else 0

    @property
    def may_persist(self) -> bool:
        """Whether there are snapshots to wait for."""
        return self.keeps_snapshots and not self.disk_fails

    def persist(self, ask: Persist) -> Persisted | None:
        """Have a snapshot written unless two hold the push already; None until they do, or the disk has failed."""
        durable = self.durable_of(ask.worker, ask.incarnation)
        if durable >= ask.sequence or not self.may_persist:
            return Persisted(durable)
        self.snapshot_wanted = True
        return None

    def position(self, ask: AskPosition, held: Sequence[HeldBlock]) -> Position:
        """The last push of this process that all the blocks hold."""
        identities = [block.sequences.get(ask.worker, BEFORE_ALL) for block in held]
        sequence = min((seen[1] if seen[0] == ask.incarnation else 0 for seen in identities), default=0)
        return Position(sequence, any(block.rebuilt for block in held))

    def install(self, moved: MovedBlock, arrays: Sequence[Array]) -> None:
        """Take over a block from another server or from a snapshot; the arrays are those of `HeldBlock.pack`."""
        names = [name for name, _, _ in moved.states]
        value, states, waiting = arrays[0], arrays[1 : 1 + len(names)], arrays[1 + len(names) :]
        state = dict(zip(names, states, strict=True))
        block = HeldBlock(moved.number, moved.offset, value, state, moved.version, dict(moved.sequences))
        block.closed, block.rebuilt = moved.closed, moved.rebuilt
        for push, gradient in zip(moved.pending, waiting, strict=True):
            identity = (push.incarnation, push.sequence)
            block.pending.setdefault(push.round, {})[push.worker, identity] = (gradient, push.scale)
        self.blocks[moved.number] = block
        self.changes += 1

    def freeze(self, held: Sequence[HeldBlock], until: float, mover: object) -> None:
        """Let these blocks stand still while they are carried to another server."""
        for block in held:
            block.frozen_until, block.frozen_by = until, mover

    def thaw(self, mover: object) -> None:
        """Go on with the blocks that this mover froze."""
        for block in self.blocks.values():
            if block.frozen_by is mover:
                block.frozen_until, block.frozen_by = 0.0, None

    def follow(self, numbers: Sequence[int], map_version: int, now: float) -> None:
        """The map in force leaves this server these blocks: drop the others.

        A map that is known already says that nothing came of a move whose time is up: its blocks go on.
        """
        if map_version > self.map_version:
            self.map_version = map_version
            self.blocks = {number: self.blocks[number] for number in numbers if number in self.blocks}
            self.changes += 1
            now = math.inf
        for block in self.blocks.values():
            if map_version == self.map_version and block.frozen_until <= now:
                block.frozen_until, block.frozen_by = 0.0, None

    def _apply(self, block: HeldBlock, gradient: Array, scale: float) -> None:
        if gradient.size != block.value.size:
            raise ShapeMismatchError(f"block {block.number} has {block.value.size} elements, not {gradient.size}")
        block.make_writable()
        state = dict(block.state)  # what it keeps counts when it can be kept
        name, rate = self.agreement.training.optimizer, self.agreement.training.learning_rate * scale
        try:
            self.agreement.optimizer(block.value, gradient, state, rate)
            block.state = state if name in BUILT_IN else state_arrays(state)
        except Exception as error:
            raise OptimizerError(f"optimizer {name!r} failed: {type(error).__name__}: {error}") from error
        block.version += 1
        self.changes += 1

    def _collect(self, push: Push, held: Sequence[HeldBlock], gradients: Sequence[Array]) -> None:
        identity = (push.incarnation, push.sequence)
        for block, gradient in zip(held, gradients, strict=True):
            if self._is_news(block, push.worker, identity):
                # A round that is already closed does not open again: what comes late counts in the next one.
                number = max(push.clock, block.closed + 1)
                contributions = block.pending.setdefault(number, {})
                contributions[push.worker, identity] = (gradient.copy(), push.scale)

    def _close(self, block: HeldBlock, contributions: dict[tuple[str, Identity], tuple[Array, float]]) -> None:
        ordered = sorted(contributions.items())
        mean = np.zeros_like(block.value)
        for _, (gradient, scale) in ordered:
            mean += gradient * block.value.dtype.type(scale)
        mean /= len(ordered)
        self._apply(block, mean, 1.0)
        for (worker, identity), _ in ordered:
            block.sequences[worker] = self.handled[worker] = identity

    def _is_news(self, block: HeldBlock, worker: str, identity: Identity) -> bool:
        seen = block.sequences.get(worker, BEFORE_ALL)
        if seen[0] > identity[0]:
            raise ReplacedError(f"{worker} was replaced by a newer process")
        return seen < identity

    def _answer(self, push: Push, held: Sequence[HeldBlock], staleness: int, *, applied: bool) -> Pushed:
        durable = self.durable_of(push.worker, push.incarnation)
        return Pushed(tuple(block.version for block in held), staleness, applied, durable)

    def _check_alive(self) -> None:
        if self._stopped:
            raise NonFiniteGradientError(self._stopped)

    def _all_finite(self, push: Push, gradients: Sequence[Array]) -> bool:
        if all(is_finite(gradient) for gradient in gradients):
            return True
        message = f"push {push.sequence} of {push.worker} holds NaN or infinity"
        if self.agreement.policy is NonFinitePolicy.SKIP:
            return False
        if self.agreement.policy is NonFinitePolicy.STOP:
            self._stopped = f"training stopped: {message}"
        raise NonFiniteGradientError(message)


def is_finite(array: Array) -> bool:
    """Whether all elements are finite: one fast pass of squares, and a slow look only when that overflows."""
    flat = array.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(np.dot(flat, flat)) or bool(np.isfinite(flat).all())


def check_sizes(held: Sequence[HeldBlock], nbytes: int) -> None:
    """Refuse a payload that is not exactly the blocks it claims to be."""
    expected = sum(block.value.nbytes for block in held)
    if expected != nbytes:
        raise ShapeMismatchError(f"the payload has {nbytes} bytes, the blocks have {expected}")
