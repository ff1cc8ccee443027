"""The queue of data shards: every example of every epoch is handed out, by lease, until it is reported done.

Pure state: the coordinator calls it and brings the owner of a lease; no clock in here. A shard is a range of positions
in an epoch's order of examples. It may come back in part, because a worker that stops gracefully knows how far it got.
"""

from __future__ import annotations

from collections import deque

import msgspec
import numpy as np

from gangline.ps.blocks import Indices
from gangline.ps.errors import SettingsError


class ShardPlan(msgspec.Struct, frozen=True, array_like=True):
    """How many examples there are, how they are cut, and how often they are seen."""

    examples: int
    size: int
    epochs: int


class ShardRange(msgspec.Struct, frozen=True, array_like=True):
    """Positions `start` to `stop` of one epoch (counted from 0)."""

    epoch: int
    start: int
    stop: int


class ShardState(msgspec.Struct, array_like=True):
    """All that the queue must remember over a restart."""

    plan: ShardPlan
    next_epoch: int = 0
    waiting: list[ShardRange] = []
    leased: list[tuple[str, ShardRange]] = []
    done_examples: int = 0


class ShardQueue:
    """Hands out shards, oldest epoch first; a shard that comes back goes to the front."""

    def __init__(self, state: ShardState) -> None:
        plan = state.plan
        if plan.examples < 1 or plan.size < 1 or plan.epochs < 1:
            raise SettingsError(f"shards need examples, size and epochs of at least 1, not {plan}")
        self.plan = plan
        self._next_epoch = state.next_epoch
        self._waiting = deque(state.waiting)
        self._leased: dict[ShardRange, str] = {shard: owner for owner, shard in state.leased}
        self._done_examples = state.done_examples

    def state(self) -> ShardState:
        """What to keep for a restart."""
        leased = [(owner, shard) for shard, owner in self._leased.items()]
        return ShardState(self.plan, self._next_epoch, list(self._waiting), leased, self._done_examples)

    @property
    def done_examples(self) -> int:
        """Examples reported done, over all epochs."""
        return self._done_examples

    @property
    def finished(self) -> bool:
        """Whether every example of every epoch has been reported done."""
        return self._done_examples >= self.plan.examples * self.plan.epochs

    def take(self, owner: str) -> ShardRange | None:
        """Lease the next shard; None when all are out or done."""
        if not self._waiting and self._next_epoch < self.plan.epochs:
            self._open_epoch()
        if not self._waiting:
            return None
        shard = self._waiting.popleft()
        self._leased[shard] = owner
        return shard

    def finish(self, owner: str, shard: ShardRange) -> None:
        """Note that a shard was trained on. A report from anyone but its holder is late news and changes nothing."""
        if self._leased.get(shard) == owner:
            del self._leased[shard]
            self._done_examples += shard.stop - shard.start

    def give_back(self, owner: str, shard: ShardRange, reached: int) -> None:
        """Return the rest of a shard, from position `reached` on; what lies before it counts as done."""
        if self._leased.get(shard) != owner:
            return
        del self._leased[shard]
        reached = min(max(reached, shard.start), shard.stop)
        self._done_examples += reached - shard.start
        if reached < shard.stop:
            self._waiting.appendleft(ShardRange(shard.epoch, reached, shard.stop))

    def release(self, owner: str) -> None:
        """Return every shard of an owner that is gone, whole."""
        for shard in [shard for shard, holder in self._leased.items() if holder == owner]:
            self.give_back(owner, shard, shard.start)

    def claim(self, owner: str, held: list[ShardRange], done: list[ShardRange]) -> None:
        """Bring a restored, older queue up to date with what a surviving worker knows it holds and has done."""
        for shard in [*done, *held]:
            while self._next_epoch <= shard.epoch and self._next_epoch < self.plan.epochs:
                self._open_epoch()
            if shard in self._waiting:
                self._waiting.remove(shard)
                self._leased[shard] = owner
        for shard in done:
            self.finish(owner, shard)
        unheard = [shard for shard, holder in self._leased.items() if holder == owner and shard not in held]
        for shard in unheard:  # the grant was lost on its way
            self.give_back(owner, shard, shard.start)

    def _open_epoch(self) -> None:
        plan, epoch = self.plan, self._next_epoch
        starts = range(0, plan.examples, plan.size)
        self._waiting.extend(ShardRange(epoch, at, min(at + plan.size, plan.examples)) for at in starts)
        self._next_epoch += 1


def epoch_order(examples: int, epoch: int, seed: int) -> Indices:
    """The order in which one epoch goes through the examples: the same for all who use the same seed."""
    return np.random.default_rng([seed, epoch]).permutation(examples)
