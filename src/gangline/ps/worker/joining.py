"""Finding the lead and joining it. Any server of a job knows where the lead is, even if the lead is another by now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing

from gangline.ps.errors import AuthenticationError, NoMapError, NotLeadError
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.link import Link, ask, ask_map


def join_lead(addresses: Iterable[str], request: m.Join, dial: Callable[[str], Link]) -> tuple[Link, m.Joined]:
    """Join at the first of these servers that leads or knows who does; ConnectionError when none can say.

    If one of them has another secret than this process, that is the error: the others need not be up yet.
    """
    failure: Exception | None = None
    for address in addresses:
        try:
            return _join_by_way_of(address, request, dial)
        except (OSError, NotLeadError, NoMapError) as error:
            failure = failure if isinstance(failure, AuthenticationError) else error
    if isinstance(failure, AuthenticationError):
        raise failure
    raise ConnectionError(f"no server leads the training: {failure}") from failure


def _join_by_way_of(address: str, request: m.Join, dial: Callable[[str], Link]) -> tuple[Link, m.Joined]:
    link = dial(address)
    try:
        reply = ask(link, request)
    except NotLeadError:
        with closing(link):
            newest = ask_map(link)
        if request.map and newest.version <= request.map.version:
            raise
        # The map goes along: the lead may not have heard yet that it is the lead.
        return _join_by_way_of(newest.servers[0], m.structs_replace(request, map=newest), dial)
    except BaseException:
        link.close()
        raise
    assert isinstance(reply, m.Joined)
    return link, reply
