"""One server as a session sees it: its blocks, its link when it is up, and what it has confirmed.

A peer sends and receives; it raises OSError when the server is gone and leaves it to the session what to do then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from gangline.ps.blocks import Array, Block, BlockMap
from gangline.ps.errors import MissingBlocksError
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.frames import Buffer, byte_view
from gangline.ps.protocol.link import Link, ask
from gangline.ps.protocol.shared_image import SharedImage
from gangline.ps.settings import Training
from gangline.ps.worker.push_log import LoggedPush, PushLog

# A large push goes in messages of about this size: the server applies one while the next is on its way.
GROUP_BYTES = 4 << 20
# So many messages may be under way before a reply is taken.
WINDOW = 4


class PushOutcome(NamedTuple):
    """How old the values behind a push were, in updates, and whether it was applied."""

    staleness: int
    applied: bool


class Peer:
    """A server and the blocks it owns under one version of the map."""

    def __init__(self, number: int, block_map: BlockMap, image: SharedImage, worker: str) -> None:
        self.address = block_map.servers[number]
        self.numbers = block_map.owned_by(number)
        self.link: Link | None = None
        self.confirmed = 0
        self.durable = 0
        self.incarnation = 0
        self.tried_at = 0.0
        self._lowest_sequence = 0
        self._map = block_map
        self._image = image
        self._worker = worker
        self._versions = dict.fromkeys(self.numbers, 0)
        self._groups = list(_groups(self.numbers, block_map.blocks))
        self._push: LoggedPush
        self._pull = self._replay = False
        self._sent = self._received = 0
        self._staleness, self._applied = 0, True

    @property
    def blocks(self) -> list[Block]:
        """The server's blocks, in order."""
        return [self._map.blocks[number] for number in self.numbers]

    @property
    def map_version(self) -> int:
        """The version of the map this peer was made from."""
        return self._map.version

    def initialise(self, training: Training, *, rebuilt: bool = False) -> None:
        """Upload the worker's values as the first ones, with the settings that the lead put in force."""
        payload = [self._value_bytes(number) for number in self.numbers]
        ask(self._up, m.Initialise(self._map, self.numbers, rebuilt, training), payload)

    def begin_push(self, push: LoggedPush, *, pull: bool, replay: bool = False) -> Literal[True]:
        """Take up one step's gradients; `push_some` sends them."""
        self._push, self._pull, self._replay = push, pull, replay
        self._sent = self._received = 0
        self._staleness, self._applied = 0, True
        return True

    def push_some(self) -> bool:
        """Send one more message of the push, and take a reply when several are due; whether there is more to do.

        Replies are taken while later messages leave, so that bytes flow both ways at once.
        """
        if self._sent < len(self._groups):
            self._send_group(self._groups[self._sent])
            self._sent += 1
            if self._sent - self._received > WINDOW:
                self._receive_group()
        elif self._received < self._sent:
            self._receive_group()
        if self._received < len(self._groups):
            return True
        self.confirmed = self._push.sequence
        if not self._groups:
            self.durable = self.confirmed  # a server without blocks has nothing to keep
        return False

    def outcome(self) -> PushOutcome:
        """What became of the push."""
        return PushOutcome(self._staleness, self._applied)

    def send_pull(self, clock: int) -> Literal[True]:
        """Ask for the values."""
        for group in self._groups:
            self._up.send(m.Pull(self._map.version, group, clock))
        return True

    def receive_pull(self) -> None:
        """Take the values."""
        for group in self._groups:
            reply = self._up.receive(map(self._value_bytes, group))
            assert isinstance(reply, m.Values)
            self._versions.update(zip(group, reply.versions, strict=True))

    def send_persist(self, sequence: int) -> Literal[True]:
        """Ask to have snapshots hold a push."""
        self._up.send(m.Persist(self._worker, self.incarnation, sequence))
        return True

    def receive_persisted(self) -> None:
        """Wait until they do, or cannot."""
        reply = self._up.receive()
        assert isinstance(reply, m.Persisted)
        self.durable = reply.sequence

    def catch_up(self, log: PushLog, clock: int, training: Training) -> None:
        """After a break: send again what the server lacks, then take its values."""
        try:
            position = self._ask_position()
        except MissingBlocksError:
            # The server lost everything, snapshots too. The worker's own values hold all its pushes up to now.
            self.initialise(training, rebuilt=True)
            position = self._ask_position()
            self._lowest_sequence = log.last_sequence
        if position.rebuilt and not position.sequence:
            # Another worker rebuilt it, from values that held all we had confirmed.
            self._lowest_sequence = max(self._lowest_sequence, self.confirmed)
        seen = max(position.sequence, self._lowest_sequence)
        self.confirmed = max(self.confirmed, seen)
        for push in log.after(seen):
            self.begin_push(push, pull=False, replay=True)
            while self.push_some():
                continue
        self.send_pull(clock)
        self.receive_pull()

    def close(self) -> None:
        """Let go of the link."""
        if self.link:
            self.link.close()
            self.link = None

    @property
    def _up(self) -> Link:
        if self.link is None:
            raise ConnectionError(f"{self.address} is not connected")
        return self.link

    def _send_group(self, group: tuple[int, ...]) -> None:
        push = self._push
        message = m.Push(
            worker=self._worker,
            incarnation=self.incarnation,
            sequence=push.sequence,
            clock=push.clock,
            map_version=self._map.version,
            blocks=group,
            bases=tuple(self._versions[number] for number in group),
            scale=push.scale,
            pull=self._pull,
            replay=self._replay,
            final=group is self._groups[-1],
        )
        link = self._up
        link.send(message, self._gradient_payload(link, group, push.gradients))

    def _receive_group(self) -> None:
        group = self._groups[self._received]
        reply = self._up.receive(map(self._value_bytes, group) if self._pull else ())
        assert isinstance(reply, m.Pushed)
        self._received += 1
        if self._pull:
            self._versions.update(zip(group, reply.versions, strict=True))
        self._staleness = max(self._staleness, reply.staleness)
        self._applied = self._applied and reply.applied
        self.durable = reply.durable

    def _ask_position(self) -> m.Position:
        reply = ask(self._up, m.AskPosition(self._worker, self.incarnation, self._map.version, self.numbers))
        assert isinstance(reply, m.Position)
        return reply

    def _value_bytes(self, number: int) -> memoryview:
        block = self._map.blocks[number]
        return self._image.values[block.offset : block.offset + block.nbytes]

    def _gradient_payload(self, link: Link, group: tuple[int, ...], gradients: Mapping[int, Array]) -> list[Buffer]:
        payload: list[Buffer] = []
        for number in group:
            block = self._map.blocks[number]
            source = byte_view(gradients[block.tensor][block.start : block.stop])
            if not link.shared:
                payload.append(source)
                continue
            target = self._image.gradients[block.offset : block.offset + block.nbytes]
            target[:] = source
        return payload


def _groups(numbers: tuple[int, ...], blocks: tuple[Block, ...]) -> Iterator[tuple[int, ...]]:
    group: list[int] = []
    size = 0
    for number in numbers:
        group.append(number)
        size += blocks[number].nbytes
        if size >= GROUP_BYTES:
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)
