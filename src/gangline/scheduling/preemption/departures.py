"""Who will be gone when: gangs that run, and those that start in this cycle. The first in line counts on them."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from gangline.model import JobId, Timestamp
from gangline.scheduling.gangs.forecast import SHORTEST_GUESS_SECONDS, expected_end
from gangline.scheduling.gangs.holdings import Held, Holdings, Waiting
from gangline.scheduling.nodes.draft import Draft
from gangline.scheduling.placement.layout import Layout, Seats


class Departure(NamedTuple):
    """Gangs that end at one moment: one that runs, or some that start now."""

    at: Timestamp
    jobs: tuple[JobId, ...]
    held: Held | None = None
    seats: tuple[Seats, ...] = ()


def ends(held: Iterable[Held], now: Timestamp) -> list[Departure]:
    """Gangs that run, those who will be gone first first."""
    found = [Departure(expected_end(each, now), (each.job.id,), each) for each in held]
    # Nobody has the ids of another, so whatever stands behind them is never compared.
    found.sort()
    return found


def departures(
    running: Sequence[Departure], started: Sequence[tuple[Waiting, Layout]], now: Timestamp
) -> Sequence[Departure]:
    """Those and the ones that start now, in order.

    Of gangs that start now and have not said how long they take, nobody knows anything: they end after all others.
    """
    if not started:
        return running
    found = list(running)
    known = [pair for pair in started if pair[0].promise is not None]
    for promise, pairs in groupby(sorted(known, key=_promise), _promise):
        found.append(_together(list(pairs), Timestamp(now + promise)))
    found.sort()
    if len(known) < len(started):
        last = found[-1].at if found else now
        unknown = [pair for pair in started if pair[0].promise is None]
        found.append(_together(unknown, Timestamp(max(last, now + SHORTEST_GUESS_SECONDS))))
    return found


def vacate(draft: Draft, holdings: Holdings, gone: Sequence[Departure]) -> None:
    """Give back what these occupy."""
    holdings.release(draft, [role for each in gone if each.held is not None for role in each.held.roles])
    seats = [seats for each in gone for seats in each.seats]
    for each in seats:
        if each.need.part:
            draft.release(each.need, list(each.each()), each.slots)
    whole = [each for each in seats if not each.need.part]
    if whole:
        counts = np.concatenate([each.counts for each in whole])
        amounts = np.repeat(np.array([each.need.row for each in whole]), [len(each.rows) for each in whole], axis=0)
        draft.release_many(np.concatenate([each.rows for each in whole]), amounts * counts[:, None])


def _together(pairs: Sequence[tuple[Waiting, Layout]], at: Timestamp) -> Departure:
    jobs = tuple(gang.job.id for gang, _ in pairs)
    return Departure(at, jobs, seats=tuple(seats for _, layout in pairs for seats in layout))


def _promise(pair: tuple[Waiting, Layout]) -> float:
    return pair[0].promise or 0.0
