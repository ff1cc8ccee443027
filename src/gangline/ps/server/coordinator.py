"""Who is in the training, how far each is, who has which shard, and which map is in force.

Pure state with the time handed in; the service calls it. Every server has one, and the server that the newest map
names first is the lead: it alone answers for the training, the others know the map and nothing else. A question that
must wait (a gate, a shard) is answered with None and asked again when `changed` says that something happened.
"""

from __future__ import annotations

import msgspec

from gangline.ps.blocks import BlockMap, check_same, respread, spread
from gangline.ps.errors import (
    NoMapError,
    NotLeadError,
    OldMapError,
    ParameterServerError,
    ReplacedError,
    SettingsError,
    UnknownWorkerError,
)
from gangline.ps.protocol.lead_state import LeadState, Member
from gangline.ps.protocol.messages import Join, Joined, Progress, Proposed, ShardGrant, Turn
from gangline.ps.server.agreement import Agreement
from gangline.ps.shards import ShardPlan, ShardQueue, ShardRange, ShardState

RECONNECT_SECONDS = 1.0


class Coordinator:
    """What one server knows of the training as a whole."""

    def __init__(self, address: str, servers: tuple[str, ...], agreement: Agreement, *, lease_seconds: float) -> None:
        self._address = address
        self.servers = servers
        """The addresses of the job's servers, in their order, as they were when this one started."""
        self._agreement = agreement
        self._lease_seconds = lease_seconds
        self._state = LeadState()
        self._shards: ShardQueue | None = None
        self._uploader: str | None = None
        self._proposal: BlockMap | None = None
        self._silent = False
        self._until = 0.0
        self.changed = False
        self.end_kept = False
        """Whether a snapshot holds that all shards are done."""

    def state(self) -> LeadState:
        """A copy to keep in a snapshot or to hand on."""
        shards = self._shards.state() if self._shards else None
        copied = msgspec.convert(msgspec.to_builtins(self._state), LeadState)
        return msgspec.structs.replace(copied, shards=shards)

    def state_to_keep(self, now: float) -> LeadState:
        """A copy for a snapshot: leases end this many seconds from now, whatever time it is when they are restored."""
        kept = self.state()
        for member in kept.members.values():
            member.expires -= now
        return kept

    def restore(self, state: LeadState, now: float) -> None:
        """Go on from a snapshot; everybody in it has the rest of the lease to come back.

        The rest and not a new one: shards of a worker that is gone for good would else never come back while the lead
        lives shorter than a lease.
        """
        self._state = state
        self._shards = ShardQueue(state.shards) if state.shards else None
        for member in state.members.values():
            member.expires = now + min(member.expires, self._lease_seconds)

    @property
    def leads(self) -> bool:
        """Whether this server is the first of the newest map that it knows."""
        servers = self._state.map.servers if self._state.map else self.servers
        return servers[0] == self._address

    @property
    def moving(self) -> bool:
        """Whether another map is being prepared: nobody can say yet which will be in force."""
        return self._proposal is not None

    def may_answer(self) -> bool:
        """Whether questions for the lead are answered now; False when they must wait. Refuses them elsewhere."""
        if not self.leads:
            first = self._state.map.servers[0] if self._state.map else self.servers[0]
            raise NotLeadError(f"{self._address} does not lead the training: {first} does")
        return not self._silent

    @property
    def map(self) -> BlockMap:
        """The newest map known: on the lead, the one in force."""
        if self._state.map is None:
            raise NoMapError("no worker has declared a model yet")
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
            self._state.map = spread(join.tensors, self.servers)
        check_same(join.tensors, self._state.map.tensors)
        goes_on = self._goes_on(join)
        incarnation = self._incarnation(join)
        clock = join.clock if goes_on else max(join.clock, self._slowest())
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
        """End the leases that ran out; answers whose. A move that took too long ends as well, and changes nothing."""
        if self._until and self._until <= now:
            self.withdraw(now)
        if self._silent or not self.leads:
            return []
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
        """Lease a shard; None while all that is left is leased to others.

        Those others do not wait at their gates for who has nothing to do; it goes on from where they are by then.
        """
        member = self._member(worker, incarnation)
        queue = self._queue(plan)
        shard = queue.take(_owner(worker, incarnation))
        waits = shard is None and not queue.finished
        if member.without_shard and not waits:
            member.clock = max(member.clock, self._slowest())
        self.changed = self.changed or waits != member.without_shard
        member.without_shard = waits
        return None if waits else ShardGrant(shard, member.clock)

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

    def propose(self, servers: tuple[str, ...], until: float, based_on: int = 0) -> Proposed:
        """The map for another set of servers, the first of which shall lead. It can be put in force until then."""
        if based_on and based_on != self.map_version:
            raise OldMapError(f"map {based_on} was replaced meanwhile: map {self.map_version} is in force")
        if not servers or len(set(servers)) != len(servers):
            raise SettingsError(f"servers {servers}: there must be one, and none twice")
        self._proposal, self._until = respread(self.map, servers), until
        return Proposed(self.map, self._proposal)

    def hand_over(self) -> LeadState:
        """What the next lead needs to know. Until the proposed map is in force or withdrawn, nobody is answered."""
        if self._proposal is None or not self._state.ready:
            raise ParameterServerError("nothing can be handed over: no map is proposed, or the model has no values yet")
        self._silent = True
        return self.state()

    def take_over(self, state: LeadState, now: float) -> None:
        """Learn what the lead knows, to go on from there once the map in force names this server first."""
        if state.map and state.map.version < self.map_version:
            raise OldMapError(f"map {state.map.version} was replaced meanwhile: map {self.map_version} is in force")
        self.restore(state, now)

    def keep_silent(self, until: float) -> None:
        """Answer nobody before it is known that no other server leads; for a server that has just started."""
        self._silent, self._until = self.leads, until

    def withdraw(self, now: float) -> None:
        """Go on with the map in force; the leases begin anew, because nobody could renew them meanwhile."""
        self._end_move()
        self._renew_all(now)

    def commit(self, proposed: BlockMap, now: float) -> None:
        """Put the proposed map in force, its blocks having moved; with it, its first server leads."""
        if proposed != self._proposal or self._until <= now:
            raise OldMapError(
                f"map {proposed.version} is not the one proposed: it took too long, or another was faster"
            )
        self.adopt(proposed, now)

    def adopt(self, newer: BlockMap, now: float) -> None:
        """Take a map that was put in force elsewhere for the truth, if it is newer than the one known here."""
        if self._state.map:
            if newer.version <= self._state.map.version:
                return
            check_same(newer.tensors, self._state.map.tensors)
        led = self.leads
        self._state.map = newer
        if not self.leads:
            self._state, self._shards, self._uploader = LeadState(map=newer), None, None
        elif not led:
            self._renew_all(now)
        self._end_move()

    def _end_move(self) -> None:
        self._proposal, self._silent, self._until = None, False, 0.0
        self.changed = True

    def _renew_all(self, now: float) -> None:
        for member in self._state.members.values():
            member.expires = now + self._lease_seconds

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

    def _goes_on(self, join: Join) -> bool:
        """Whether a worker that comes back has its own clock still, which a lead without memory must take as it is.

        Who comes anew, or back after its lease ended, begins where the slowest is: nobody waits for it to catch up.
        """
        if not join.incarnation:
            return False
        return join.worker in self._state.members or self._state.incarnations.get(join.worker) != join.incarnation

    def _incarnation(self, join: Join) -> int:
        known = self._state.incarnations.get(join.worker, 0)
        if join.incarnation:
            if join.incarnation < known:
                raise ReplacedError(f"{join.worker} was replaced by a newer process")
            incarnation = join.incarnation
        else:
            # `proposed` is the time of joining: a lead restored from an old snapshot must not give a number twice.
            incarnation = max(known + 1, join.proposed)
        member = self._state.members.get(join.worker)
        if member and member.incarnation != incarnation:
            self._remove(join.worker)  # an earlier process, also where only an old snapshot knew of it
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
        stepping = (each for each in self._state.members.values() if not (each.observer or each.without_shard))
        clocks = [member.clock for member in stepping]
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
