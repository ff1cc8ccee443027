"""Adding and removing servers while training goes on.

Driven by a client (an operator's program, or a new server that announces itself), so that no server ever waits for
another: ask the lead for the new map, freeze the blocks that move, carry them over, put the map in force, drop the
old copies. Workers that push to a frozen block are told that their map is old, and come back with the new one.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence

from gangline.ps import messages as m
from gangline.ps.blocks import BlockMap
from gangline.ps.errors import ParameterServerError, ServerLostError, SettingsError
from gangline.ps.link import RemoteLink, ask

# If the mover dies, its blocks thaw after this time where they are. It puts a map in force only well before that.
FREEZE_SECONDS = 20.0
ANNOUNCE_SECONDS = 1.0
logger = logging.getLogger(__name__)

Moves = dict[str, list[int]]


def resize(servers: Sequence[str], *, job: str) -> int:
    """Spread the model over these servers, the lead first; answers the version of the map then in force.

    Raises, with everything as it was, when a server cannot be reached or someone else changed the map meanwhile.
    """
    links = {address: RemoteLink(address, job=job, sender="resize") for address in servers[:1]}
    lead = links[servers[0]]
    try:
        current = _map(ask(lead, m.AskMap()))
        proposed = _map(ask(lead, m.ProposeServers(tuple(servers))))
        for address in {*current.servers, *servers} - set(links):
            links[address] = RemoteLink(address, job=job, sender="resize")
        _move(current, proposed, links)
        return proposed.version
    finally:
        for link in links.values():
            link.close()


def announce(address: str, lead: str, *, job: str) -> None:
    """Have a new server given its share, as soon as there is a model. For a thread of that server."""
    while True:
        try:
            servers = _servers(lead, job)
            if address not in servers:
                logger.info("joined under map %d", resize([*servers, address], job=job))
            return
        except SettingsError as error:
            logger.error("this server is given no share: %s", error)
            return
        except (OSError, ParameterServerError) as error:
            logger.debug("not joined yet: %s", error)
            time.sleep(ANNOUNCE_SECONDS)


def _servers(lead: str, job: str) -> tuple[str, ...]:
    link = RemoteLink(lead, job=job, sender="resize")
    try:
        return _map(ask(link, m.AskMap())).servers
    finally:
        link.close()


def _move(current: BlockMap, proposed: BlockMap, links: dict[str, RemoteLink]) -> None:
    leaving: Moves = defaultdict(list)
    for number, (old, new) in enumerate(zip(current.blocks, proposed.blocks, strict=True)):
        if current.servers[old.server] != proposed.servers[new.server]:
            leaving[current.servers[old.server]].append(number)
    deadline = time.monotonic() + FREEZE_SECONDS / 2
    try:
        for address, numbers in leaving.items():
            _carry(links[address], numbers, proposed, links)
        if time.monotonic() > deadline:
            raise ServerLostError("moving the blocks took too long; the map stays as it was")
        ask(links[proposed.servers[0]], m.Commit(proposed))
    except (OSError, ParameterServerError):
        _thaw(leaving, links)
        raise
    for address, numbers in leaving.items():
        ask(links[address], m.Forget(proposed.version, tuple(numbers)))


def _carry(source: RemoteLink, numbers: list[int], proposed: BlockMap, links: dict[str, RemoteLink]) -> None:
    source.send(m.Freeze(tuple(numbers), FREEZE_SECONDS))
    frozen, payload = source.receive_with_payload()
    assert isinstance(frozen, m.Frozen)
    offset = 0
    for block in frozen.blocks:
        size = m.moved_bytes(block)
        target = links[proposed.servers[proposed.blocks[block.number].server]]
        ask(target, m.Install(proposed.version, block, frozen.training), [payload[offset : offset + size]])
        offset += size


def _thaw(leaving: Moves, links: dict[str, RemoteLink]) -> None:
    for address, numbers in leaving.items():
        try:
            ask(links[address], m.Freeze(tuple(numbers), 0.0))
        except (OSError, ParameterServerError) as error:
            logger.warning("blocks on %s stay frozen for up to %g s: %s", address, FREEZE_SECONDS, error)


def _map(reply: m.Reply) -> BlockMap:
    assert isinstance(reply, m.CurrentMap)
    return reply.map
