"""Adding and removing servers, the lead among them, while training goes on.

Driven by a client (an operator's program, a new server that announces itself, one that was told to stop), so that no
server ever waits for another. The lead proposes the next map; the blocks that move are frozen and carried over; if
another server shall lead, it is told all that the lead knows, and the lead falls silent; then the lead puts the map in
force, which is the one moment that counts, and everybody is told. Workers that push to a frozen block, or ask a server
that leads no longer, fetch the map in force and go on with that.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Protocol

from gangline import runtime
from gangline.ps.blocks import BlockMap
from gangline.ps.errors import NoMapError, ParameterServerError, ServerLostError, SettingsError
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.authentication import Credentials
from gangline.ps.protocol.link import Link, RemoteLink, ask, ask_map

# A map can take effect for this long after it was proposed. Blocks are frozen later than that and stay so at least as
# long: when their time is up, the lead's answer is final.
MOVE_SECONDS = 20.0
ANNOUNCE_SECONDS = 1.0
DEPART_SECONDS = 0.3
logger = logging.getLogger(__name__)


class MovingLink(Link, Protocol):
    """A link over which blocks are carried."""

    def receive_with_payload(self) -> tuple[m.Reply, memoryview]:
        """A reply whose payload's size only the reply tells."""


Dial = Callable[[str], MovingLink]


def resize(servers: Sequence[str], *, job: str) -> int:
    """Spread the model over these servers, the first of which leads; answers the version of the map then in force.

    At least one of them must take part already. Raises, with everything as it was, when a server cannot be reached. The
    job's secret is the one that the environment names.
    """
    credentials = Credentials.of(runtime.current())
    return spread_over(servers, partial(RemoteLink, job=job, sender="resize", credentials=credentials))


def spread_over(servers: Sequence[str], dial: Dial, *, based_on: int = 0) -> int:
    """See resize. With the version of a map, only if that is in force: somebody else may add or remove servers too."""
    with ExitStack() as open_links:
        links = _Links(dial, open_links)
        newest = _newest(_known_maps(servers, links))
        if newest is None:
            raise ServerLostError(f"none of {', '.join(servers)} takes part in a training")
        reply = ask(links.to(newest.servers[0]), m.ProposeServers(tuple(servers), MOVE_SECONDS, based_on))
        assert isinstance(reply, m.Proposed)
        _move(reply.current, reply.proposed, links)
        return reply.proposed.version


def announce(address: str, servers: Sequence[str], dial: Dial, *, stopping: Callable[[], bool] = bool) -> None:
    """Have a server that has started take its place; for a thread of that server.

    It is told of the map in force, which it may have missed, and is given its share if it has none: as soon as there
    is a model. Nobody is asked twice about that by the first server: if no other knows of a model, it is the lead.
    """
    while not stopping():
        try:
            with ExitStack() as open_links:
                links = _Links(dial, open_links)
                known = _known_maps(servers, links)
                newest = _newest(known)
                if newest:
                    ask(links.to(address), m.Adopt(newest))
                ask(links.to(address), m.Withdraw())
                for other, outdated in known.items():
                    if newest and outdated.version < newest.version:
                        _tell(other, links, m.Adopt(newest))  # it may look for this one at an old address
            if newest and address not in newest.servers:
                version = spread_over([*newest.servers, address], dial, based_on=newest.version)
                logger.info("joined under map %d", version)
            if newest or address == servers[0]:
                return
        except SettingsError as error:
            logger.error("this server is given no share: %s", error)
            return
        except (OSError, ParameterServerError) as error:
            logger.debug("not joined yet: %s", error)
        time.sleep(ANNOUNCE_SECONDS)


class Departure(threading.Thread):
    """Takes the blocks of a server that was told to stop to those that stay, if there are any.

    If all were told to stop, the whole job is, and each keeps what it has in its snapshot.
    """

    def __init__(self, address: str, dial: Dial, *, seconds: float) -> None:
        super().__init__(name="departure", daemon=True)
        self._address = address
        self._dial = dial
        self._seconds = seconds
        self._until = math.inf

    def start(self) -> None:
        """Begin; the time it has begins too."""
        self._until = time.monotonic() + self._seconds
        super().start()

    def under_way(self) -> bool:
        """Whether it has begun, is not done, and has time left."""
        return self.is_alive() and time.monotonic() < self._until

    def run(self) -> None:
        """Try until it is done or its time is up."""
        while self.under_way():
            time.sleep(DEPART_SECONDS)  # whoever is stopped together with this server has been told by then
            try:
                self._depart()
            except (OSError, NoMapError) as error:
                logger.debug("not left: %s", error)
            except ParameterServerError as error:
                logger.debug("not left yet: %s", error)  # somebody else moves blocks
                continue
            return

    def _depart(self) -> None:
        with ExitStack() as open_links:
            links = _Links(self._dial, open_links)
            known = _known_maps(ask_map(links.to(self._address)).servers, links)
            newest = max(known.values(), key=lambda each: each.version)
            staying = [address for address in newest.servers if _stays(address, links)]
        if self._address in newest.servers and staying:
            logger.info("left under map %d", spread_over(staying, self._dial, based_on=newest.version))


class _Links:
    """The links of one move, made when first used and closed together."""

    def __init__(self, dial: Dial, open_links: ExitStack) -> None:
        self._dial = dial
        self._open_links = open_links
        self._links: dict[str, MovingLink] = {}

    def to(self, address: str) -> MovingLink:
        if address not in self._links:
            self._links[address] = self._open_links.enter_context(closing(self._dial(address)))
        return self._links[address]


def _known_maps(servers: Iterable[str], links: _Links) -> dict[str, BlockMap]:
    """The newest map that each of these servers knows; those that cannot be reached or know none are left out."""
    known = {}
    for address in servers:
        try:
            known[address] = ask_map(links.to(address))
        except (OSError, NoMapError) as error:
            logger.debug("%s knows no map: %s", address, error)
    return known


def _stays(address: str, links: _Links) -> bool:
    try:
        reply = ask(links.to(address), m.AskMap())
    except OSError:
        return False
    assert isinstance(reply, m.CurrentMap)
    return not reply.leaving


def _newest(known: Mapping[str, BlockMap]) -> BlockMap | None:
    return max(known.values(), key=lambda known: known.version, default=None)


def _move(current: BlockMap, proposed: BlockMap, links: _Links) -> None:
    lead = links.to(current.servers[0])
    sources = _sources(current, proposed)
    everybody = dict.fromkeys((*proposed.servers, *current.servers))
    try:
        for address in everybody:
            links.to(address)  # nothing is frozen before all can be reached
        for address, numbers in sources.items():
            _carry(links.to(address), numbers, proposed, links)
        if proposed.servers[0] != current.servers[0]:
            state = ask(lead, m.HandOver())
            assert isinstance(state, m.HandedOver)
            ask(links.to(proposed.servers[0]), m.TakeOver(state.state, state.training))
    except (OSError, ParameterServerError):
        _undo(current.servers[0], sources, links)
        raise
    try:
        # If the answer is lost nobody knows what holds, so nothing is undone: workers will ask the lead.
        ask(lead, m.Commit(proposed))
    except ParameterServerError:
        _undo(current.servers[0], sources, links)
        raise
    for address in everybody:
        _tell(address, links, m.Adopt(proposed))


def _sources(current: BlockMap, proposed: BlockMap) -> dict[str, list[int]]:
    """The blocks that move, by the server they leave."""
    sources: dict[str, list[int]] = defaultdict(list)
    for number, (old, new) in enumerate(zip(current.blocks, proposed.blocks, strict=True)):
        if current.servers[old.server] != proposed.servers[new.server]:
            sources[current.servers[old.server]].append(number)
    return sources


def _carry(source: MovingLink, numbers: list[int], proposed: BlockMap, links: _Links) -> None:
    source.send(m.Freeze(tuple(numbers), MOVE_SECONDS))
    frozen, payload = source.receive_with_payload()
    assert isinstance(frozen, m.Frozen)
    offset = 0
    for block in frozen.blocks:
        size = m.moved_bytes(block)
        target = links.to(proposed.servers[proposed.blocks[block.number].server])
        ask(target, m.Install(block, frozen.training), [payload[offset : offset + size]])
        offset += size


def _undo(lead: str, sources: Iterable[str], links: _Links) -> None:
    for address in sources:
        _tell(address, links, m.Thaw())
    _tell(lead, links, m.Withdraw())


def _tell(address: str, links: _Links, message: m.Request) -> None:
    """Say what will be found out anyway, only later: when the time of a move is up, or when a worker brings it."""
    try:
        ask(links.to(address), message)
    except (OSError, ParameterServerError) as error:
        logger.warning("%s was not told at once: %s", address, error)
