"""What a server does with each request. No sockets: the server's loop calls it, and so does a session without servers.

A request is answered with a reply and the arrays to send behind it, or with None when it has to wait; then it is
asked again after something changed. An error of this package becomes the reply Failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gangline.ps.blocks import Array
from gangline.ps.errors import OptimizerError, ParameterServerError, ShapeMismatchError, WireError
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.shared_image import SharedImage
from gangline.ps.server.agreement import Agreement
from gangline.ps.server.coordinator import Coordinator
from gangline.ps.server.store import HeldBlock, Pin, Store, check_sizes
from gangline.ps.settings import Settings

logger = logging.getLogger(__name__)

# The rest any server answers. What settles a move is not among them: it must come through while the lead is silent.
FOR_THE_LEAD = frozenset({
    m.Join, m.Ready, m.AwaitReady, m.Advance, m.Renew, m.Leave, m.TakeShard, m.FinishShard, m.AskProgress,
    m.ProposeServers,
})  # fmt: skip


@dataclass(slots=True)
class Caller:
    """What a server knows of one connection."""

    job: str
    joined: str = ""
    image: SharedImage | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, the arrays that follow it, and the pins to hold while they are being sent."""

    reply: m.Reply
    arrays: Sequence[Array] = ()
    pins: Sequence[Pin] = ()


@dataclass(slots=True)
class Exchange:
    """One request with all that belongs to it."""

    caller: Caller
    payload: memoryview
    shared: bool
    now: float


Handler = Callable[[Any, Exchange], Answer | None]


class Service:
    """The requests of one server."""

    def __init__(self, settings: Settings, address: str, servers: tuple[str, ...]) -> None:
        agreement = Agreement(settings)
        self.address = address
        self.leaving = False
        """Whether this server was told to stop."""
        self.store = Store(agreement)
        self.coordinator = Coordinator(address, servers, agreement, lease_seconds=settings.lease_seconds)
        self._table: dict[type, Handler] = {
            m.Push: self._push,
            m.Pull: self._pull,
            m.Hello: self._hello,
            m.Join: self._join,
            m.Initialise: self._initialise,
            m.AskPosition: self._position,
            m.Ready: self._ready,
            m.AwaitReady: self._await_ready,
            m.Advance: self._advance,
            m.Renew: self._renew,
            m.Leave: self._leave,
            m.TakeShard: self._take_shard,
            m.FinishShard: self._finish_shard,
            m.AskProgress: self._progress,
            m.AskMap: self._map,
            m.ProposeServers: self._propose,
            m.Freeze: self._freeze,
            m.Thaw: self._thaw,
            m.Install: self._install,
            m.Commit: self._commit,
            m.Adopt: self._adopt,
            m.Withdraw: self._withdraw,
            m.HandOver: self._hand_over,
            m.TakeOver: self._take_over,
            m.Persist: self._persist,
        }
        self._table |= {kind: partial(self._as_lead, self._table[kind]) for kind in FOR_THE_LEAD}

    def handle(self, request: m.Request, exchange: Exchange) -> Answer | None:
        """Answer one request; None when it has to wait."""
        try:
            return self._table[type(request)](request, exchange)
        except ParameterServerError as error:
            if isinstance(error, OptimizerError):
                logger.exception("a push cannot be applied")
            return Answer(m.Failed(error.code, str(error)))

    def disconnected(self, caller: Caller, now: float) -> None:
        """A connection closed."""
        if caller.joined:
            self.coordinator.disconnected(caller.joined, now)
        if caller.image:
            caller.image.close()

    def _as_lead(self, handle: Handler, request: m.Request, exchange: Exchange) -> Answer | None:
        if isinstance(request, m.Join) and request.map:
            # Workers carry the map in force to a lead that missed it: one that came back from an older snapshot, or
            # one that has not yet been told that it leads.
            self.coordinator.adopt(request.map, exchange.now)
        return handle(request, exchange) if self.coordinator.may_answer() else None

    def _push(self, push: m.Push, exchange: Exchange) -> Answer:
        held = self.store.find(push.blocks, push.map_version, to_change=True)
        pushed = self.store.push(push, held, _gradients(held, exchange))
        return _with_values(pushed, held, exchange) if push.pull else Answer(pushed)

    def _pull(self, pull: m.Pull, exchange: Exchange) -> Answer:
        held = self.store.find(pull.blocks, pull.map_version, to_change=pull.clock > 0)
        self.store.close_rounds(held, pull.clock)
        return _with_values(m.Values(tuple(block.version for block in held)), held, exchange)

    def _hello(self, hello: m.Hello, exchange: Exchange) -> Answer:
        if hello.job != exchange.caller.job:
            raise ParameterServerError(f"this server does not work for job {hello.job!r}")
        return Answer(m.Done())

    def _join(self, join: m.Join, exchange: Exchange) -> Answer:
        joined = self.coordinator.join(join, exchange.now)
        exchange.caller.joined = join.worker
        return Answer(joined)

    def _initialise(self, message: m.Initialise, exchange: Exchange) -> Answer:
        sizes = [message.map.blocks[number] for number in message.blocks]
        if sum(block.nbytes for block in sizes) != exchange.payload.nbytes:
            raise ShapeMismatchError(f"the payload has {exchange.payload.nbytes} bytes, not those of the blocks")
        kinds = [(block.dtype, block.stop - block.start) for block in sizes]
        self.store.initialise(message, _cut(exchange.payload, kinds))
        self.coordinator.adopt(message.map, exchange.now)
        return Answer(m.Done())

    def _position(self, ask: m.AskPosition, exchange: Exchange) -> Answer:
        return Answer(self.store.position(ask, self.store.find(ask.blocks, ask.map_version, to_change=True)))

    def _ready(self, _: m.Ready, exchange: Exchange) -> Answer:
        self.coordinator.uploaded()
        return Answer(m.Done())

    def _await_ready(self, message: m.AwaitReady, exchange: Exchange) -> Answer | None:
        turn = self.coordinator.await_ready(message.worker)
        return Answer(turn) if turn else None

    def _advance(self, message: m.Advance, exchange: Exchange) -> Answer | None:
        passed = self.coordinator.advance(message.worker, message.incarnation, message.clock)
        return Answer(m.Done()) if passed else None

    def _renew(self, message: m.Renew, exchange: Exchange) -> Answer:
        self.coordinator.renew(message.worker, message.incarnation, exchange.now)
        return Answer(m.Done())

    def _leave(self, message: m.Leave, exchange: Exchange) -> Answer:
        self.coordinator.leave(message.worker, message.incarnation)
        exchange.caller.joined = ""
        return Answer(m.Done())

    def _take_shard(self, message: m.TakeShard, exchange: Exchange) -> Answer | None:
        grant = self.coordinator.take_shard(message.worker, message.incarnation, message.plan)
        if grant and grant.shard is None and self.store.may_persist and not self.coordinator.end_kept:
            # Workers that are told of the end do not come back: a lead that forgot it would wait for them forever.
            self.store.snapshot_wanted = True
            return None
        return Answer(grant) if grant else None

    def _finish_shard(self, message: m.FinishShard, exchange: Exchange) -> Answer:
        self.coordinator.finish_shard(message.worker, message.incarnation, message.shard, message.reached)
        return Answer(m.Done())

    def _progress(self, _: m.AskProgress, exchange: Exchange) -> Answer:
        return Answer(self.coordinator.progress())

    def _map(self, _: m.AskMap, exchange: Exchange) -> Answer | None:
        return None if self.coordinator.moving else Answer(m.CurrentMap(self.coordinator.map, self.leaving))

    def _propose(self, message: m.ProposeServers, exchange: Exchange) -> Answer | None:
        if self.coordinator.moving:
            return None
        return Answer(self.coordinator.propose(message.servers, exchange.now + message.seconds, message.based_on))

    def _freeze(self, message: m.Freeze, exchange: Exchange) -> Answer:
        held = self.store.find(message.blocks, self.store.map_version)
        self.store.freeze(held, exchange.now + message.seconds, exchange.caller)
        packed = [block.pack() for block in held]
        frozen = m.Frozen(tuple(moved for moved, _ in packed), self.store.agreement.training)
        return Answer(frozen, [array for _, arrays in packed for array in arrays], [block.pin for block in held])

    def _thaw(self, _: m.Thaw, exchange: Exchange) -> Answer:
        self.store.thaw(exchange.caller)
        return Answer(m.Done())

    def _install(self, message: m.Install, exchange: Exchange) -> Answer:
        self.store.agreement.settle(message.training)
        arrays = [array.copy() for array in _cut(exchange.payload, m.moved_kinds(message.block))]
        self.store.install(message.block, arrays)
        return Answer(m.Done())

    def _hand_over(self, _: m.HandOver, exchange: Exchange) -> Answer:
        return Answer(m.HandedOver(self.coordinator.hand_over(), self.store.agreement.training))

    def _take_over(self, message: m.TakeOver, exchange: Exchange) -> Answer:
        self.store.agreement.settle(message.training)
        self.coordinator.take_over(message.state, exchange.now)
        return Answer(m.Done())

    def _commit(self, message: m.Commit, exchange: Exchange) -> Answer:
        self.coordinator.commit(message.map, exchange.now)
        return Answer(m.Done())

    def _withdraw(self, _: m.Withdraw, exchange: Exchange) -> Answer:
        self.coordinator.withdraw(exchange.now)
        return Answer(m.Done())

    def _adopt(self, message: m.Adopt, exchange: Exchange) -> Answer:
        self.coordinator.adopt(message.map, exchange.now)
        self.store.follow(message.map.given_to(self.address), message.map.version, exchange.now)
        return Answer(m.Done())

    def _persist(self, message: m.Persist, exchange: Exchange) -> Answer | None:
        persisted = self.store.persist(message)
        return Answer(persisted) if persisted else None


def _gradients(held: Sequence[HeldBlock], exchange: Exchange) -> list[Array]:
    if not exchange.shared:
        check_sizes(held, exchange.payload.nbytes)
        return _cut(exchange.payload, [(block.value.dtype.str, block.value.size) for block in held])
    return _shared_views(held, _image(exchange).gradients)


def _with_values(reply: m.Reply, held: Sequence[HeldBlock], exchange: Exchange) -> Answer:
    if not exchange.shared:
        return Answer(reply, [block.value for block in held], [block.pin for block in held])
    for block, target in zip(held, _shared_views(held, _image(exchange).values), strict=True):
        np.copyto(target, block.value)
    return Answer(reply)


def _image(exchange: Exchange) -> SharedImage:
    if exchange.caller.image is None:
        raise WireError("no shared memory was handed over on this connection")
    return exchange.caller.image


def _shared_views(held: Sequence[HeldBlock], memory: memoryview) -> list[Array]:
    try:
        return [np.frombuffer(memory, b.value.dtype, b.value.size, b.offset) for b in held]
    except ValueError as error:
        raise ShapeMismatchError(f"the shared memory is too small for the blocks: {error}") from error


def _cut(payload: memoryview, kinds: Sequence[tuple[str, int]]) -> list[Array]:
    arrays, offset = [], 0
    try:
        for dtype, size in kinds:
            arrays.append(np.frombuffer(payload, dtype, size, offset))
            offset += arrays[-1].nbytes
    except ValueError as error:
        raise ShapeMismatchError(f"the payload is shorter than its blocks: {error}") from error
    return arrays
