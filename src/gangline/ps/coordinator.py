"""Who is in the training, how far each is, who has which shard, and which map is in force.

Pure state with the time handed in; it lives in the first server (the lead), whose service calls it. A question that
must wait (a gate, a shard) is answered with None and asked again when `changed` says that something happened.
"""

from __future__ import annotations

import msgspec

from gangline.ps.agreement import Agreement
from gangline.ps.blocks import BlockMap, check_same, respread, spread
from gangline.ps.errors import (
    OldMapError,
    ParameterServerError,
    ReplacedError,
    SettingsError,
    UnknownWorkerError,
)
from gangline.ps.messages import Join, Joined, Progress, ShardGrant, Turn
from gangline.ps.shards import ShardPlan, ShardQueue, ShardRange, ShardState

RECONNECT_SECONDS = 1.0


class Member(msgspec.Struct, array_like=True):
    """A worker with a lease. Observers hold a lease but no clock: nobody waits for them."""

    incarnation: int
    clock: int
    expires: float
    observer: bool


class CoordinatorState(msgspec.Struct, array_like=True):
    """All that must survive a restart of the lead."""

    map: BlockMap | None = None
    ready: bool = False
    clock: int = 0
    incarnations: dict[str, int] = {}
    members: dict[str, Member] = {}
    shards: ShardState | None = None


class Coordinator:
    """The lead's state."""

    def __init__(self, servers: tuple[str, ...], agreement: Agreement, *, lease_seconds: float) -> None:
        self._servers = servers
        self._agreement = agreement
        self._lease_seconds = lease_seconds
        self._state = CoordinatorState()
        self._shards: ShardQueue | None = None
        self._uploader: str | None = None
        self.changed = False

    def state(self) -> CoordinatorState:
        """A copy to keep in a snapshot."""
        shards = self._shards.state() if self._shards else None
        copied = msgspec.convert(msgspec.to_builtins(self._state), CoordinatorState)
        return msgspec.structs.replace(copied, shards=shards)

    def restore(self, state: CoordinatorState, now: float) -> None:
        """Go on from a snapshot; everybody in it has one lease's time to come back."""
        self._state = state
        self._shards = ShardQueue(state.shards) if state.shards else None
        for member in state.members.values():
            member.expires = now + self._lease_seconds

    @property
    def map(self) -> BlockMap:
        """The map in force."""
        if self._state.map is None:
            raise ParameterServerError("no worker has declared a model yet")
        return self._state.map

    @property
    def map_version(self) -> int:
        """The version of the map in force; 0 before there is one."""
        return self._state.map.version if self._state.map else 0

    def join(self, join: Join, now: float) -> Joined:
        """Take a worker in, or back. A new process under a known name takes the old one's place at once."""
        if join.training:
            self._agreement.settle(join.training)
        elif not join.observer:
            self._agreement.settle(self._agreement.training)  # neither side says anything: the defaults hold
        if self._state.map is None:
            self._state.map = spread(join.tensors, self._servers)
        check_same(join.tensors, self._state.map.tensors)
        if join.map and join.map.version > self._state.map.version:
            # The lead came back from a snapshot older than the last resize.
            check_same(join.map.tensors, self._state.map.tensors)
            self._state.map = join.map
        incarnation = self._incarnation(join)
        clock = max(join.clock, self._slowest()) if not join.incarnation else join.clock
        expires = now + self._lease_seconds
        self._state.members[join.worker] = Member(incarnation, clock, expires, join.observer)
        if join.plan:
            self._queue(join.plan).claim(_owner(join.worker, incarnation), join.held, join.done)
        if not self._state.ready and self._uploader is None and not join.observer:
            self._uploader = join.worker
        self.changed = True
        return self._joined(join.worker, incarnation, clock)

    def renew(self, worker: str, incarnation: int, now: float) -> None:
        """Extend a lease."""
        self._member(worker, incarnation).expires = now + self._lease_seconds

    def leave(self, worker: str, incarnation: int) -> None:
        """End a lease on its holder's wish."""
        self._member(worker, incarnation)
        self._remove(worker)

    def disconnected(self, worker: str, now: float) -> None:
        """A worker's connection closed: it has a moment to come back, not the whole lease."""
        if member := self._state.members.get(worker):
            member.expires = min(member.expires, now + RECONNECT_SECONDS)

    def expire(self, now: float) -> list[str]:
        """End the leases that ran out; answers whose."""
        gone = [worker for worker, member in self._state.members.items() if member.expires <= now]
        for worker in gone:
            self._remove(worker)
        return gone

    def await_ready(self, worker: str) -> Turn | None:
        """Whether the first values are in place, or it is this worker's turn to upload them."""
        if self._state.ready:
            return Turn(ready=True)
        if self._uploader is None and not self._is_observer(worker):
            self._uploader = worker
        return Turn(ready=False) if self._uploader == worker else None

    def uploaded(self) -> None:
        """The first values are in place."""
        self._state.ready = self.changed = True

    def advance(self, worker: str, incarnation: int, clock: int) -> bool:
        """Note a worker's clock; whether it may begin the next step."""
        member = self._member(worker, incarnation)
        if clock > member.clock:
            member.clock = clock
            self._state.clock = max(self._state.clock, clock)
            self.changed = True
        return self._agreement.rule.may_pass(clock, self._slowest())

    def take_shard(self, worker: str, incarnation: int, plan: ShardPlan) -> ShardGrant | None:
        """Lease a shard; None while all that is left is leased to others."""
        self._member(worker, incarnation)
        queue = self._queue(plan)
        shard = queue.take(_owner(worker, incarnation))
        return ShardGrant(shard) if shard or queue.finished else None

    def finish_shard(self, worker: str, incarnation: int, shard: ShardRange, reached: int) -> None:
        """Note a shard as trained on up to `reached`; the rest goes back."""
        self._member(worker, incarnation)
        if self._shards:
            owner = _owner(worker, incarnation)
            if reached >= shard.stop:
                self._shards.finish(owner, shard)
            else:
                self._shards.give_back(owner, shard, reached)
            self.changed = True

    def progress(self) -> Progress:
        """How far the training is."""
        workers = tuple(sorted(name for name, member in self._state.members.items() if not member.observer))
        if self._shards is None:
            return Progress(workers=workers)
        plan, done = self._shards.plan, self._shards.done_examples
        return Progress(done, plan.examples * plan.epochs, done // plan.examples, workers, self._shards.finished)

    def propose(self, servers: tuple[str, ...]) -> BlockMap:
        """The map for another set of servers; the lead itself must stay in it, and first."""
        if not servers or servers[0] != self.map.servers[0] or len(set(servers)) != len(servers):
            raise SettingsError(f"servers {servers}: must begin with the lead {self.map.servers[0]} and not repeat")
        return respread(self.map, servers)

    def commit(self, proposed: BlockMap) -> None:
        """Put a map in force whose blocks have moved."""
        if proposed.version != self.map.version + 1:
            raise OldMapError(f"map {proposed.version} does not follow map {self.map.version}: someone else was faster")
        self._state.map = proposed
        self.changed = True

    def _joined(self, worker: str, incarnation: int, clock: int) -> Joined:
        return Joined(
            incarnation=incarnation,
            clock=clock,
            map=self.map,
            ready=self._state.ready,
            upload=self._uploader == worker and not self._state.ready,
            lease_seconds=self._lease_seconds,
            training=self._agreement.training,
        )

    def _incarnation(self, join: Join) -> int:
        known = self._state.incarnations.get(join.worker, 0)
        if join.incarnation:
            if join.incarnation < known:
                raise ReplacedError(f"{join.worker} was replaced by a newer process")
            incarnation = join.incarnation
        else:
            # `proposed` is the time of joining: a lead restored from an old snapshot must not give a number twice.
            incarnation = max(known + 1, join.proposed)
            self._remove(join.worker)
        self._state.incarnations[join.worker] = incarnation
        return incarnation

    def _queue(self, plan: ShardPlan) -> ShardQueue:
        if self._shards is None:
            self._shards = ShardQueue(ShardState(plan))
        if plan != self._shards.plan:
            raise SettingsError(f"{plan} differs from the plan in force, {self._shards.plan}")
        return self._shards

    def _member(self, worker: str, incarnation: int) -> Member:
        member = self._state.members.get(worker)
        if member and member.incarnation > incarnation:
            raise ReplacedError(f"{worker} was replaced by a newer process")
        if member is None or member.incarnation != incarnation:
            raise UnknownWorkerError(f"{worker} holds no lease")
        return member

    def _is_observer(self, worker: str) -> bool:
        member = self._state.members.get(worker)
        return member is None or member.observer

    def _slowest(self) -> int:
        clocks = [member.clock for member in self._state.members.values() if not member.observer]
        return min(clocks, default=self._state.clock)

    def _remove(self, worker: str) -> None:
        member = self._state.members.pop(worker, None)
        if member and self._shards:
            self._shards.release(_owner(worker, member.incarnation))
        if self._uploader == worker and not self._state.ready:
            self._uploader = None
        self.changed = True


def _owner(worker: str, incarnation: int) -> str:
    return f"{worker}@{incarnation}"
