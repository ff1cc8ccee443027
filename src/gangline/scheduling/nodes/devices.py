"""Parts of different sizes on the GPUs of one node: which go together, exactly.

Replicas of one size are put on the fullest GPU with room (see ``Draft``), which is as good as it gets. With several
sizes that may fail where another arrangement would do; this settles it.
"""

from collections.abc import Sequence
from functools import cache

from gangline.scheduling.demand.shapes import GPU_MILLIS

CLOSED = -1
"""A slot that stands for no GPU."""

STATES_LIMIT = 20_000
"""How long to look for an arrangement. A node has few GPUs; no real one comes near it."""

PARTS_LIMIT = 200
"""Parts on one node for which every arrangement is tried; so many are so small that the first that fits is as good."""


def arrange(levels: Sequence[int], unopened: int, parts: Sequence[int]) -> list[int] | None:
    """Give each part a slot, or return None when no arrangement exists.

    ``levels`` says what is left in every slot (CLOSED: not opened); at most ``unopened`` more may be opened.
    """
    opened = [level for level in levels if level != CLOSED]
    if sum(parts) > sum(opened) + unopened * GPU_MILLIS:
        return None
    order = sorted(range(len(parts)), key=lambda number: -parts[number])
    found = _fill(tuple(sorted(opened)), unopened, tuple(parts[number] for number in order))
    if found is None:
        return None
    slots, left = [CLOSED] * len(parts), list(levels)
    for number, level in zip(order, found, strict=True):
        slot = slots[number] = left.index(level)
        left[slot] = (GPU_MILLIS if level == CLOSED else level) - parts[number]
    return slots


def _fill(levels: tuple[int, ...], unopened: int, parts: tuple[int, ...]) -> list[int] | None:
    """What is left in the GPU that each part goes to (CLOSED: in one not opened yet), the large parts first.

    Each goes to the fullest that leads to a solution; which of several GPUs with the same left makes no difference.
    """

    @cache
    def place(index: int, levels: tuple[int, ...], unopened: int) -> tuple[int, ...] | None:
        if index == len(parts):
            return ()
        if place.cache_info().currsize > STATES_LIMIT:
            return None
        part = parts[index]
        for level in [*dict.fromkeys(each for each in levels if each >= part), *([CLOSED] if unopened > 0 else [])]:
            rest = place(index + 1, *_with(levels, unopened, level, part))
            if rest is not None:
                return (level, *rest)
        return None

    if len(parts) > PARTS_LIMIT:
        return _first_fit(levels, unopened, parts)
    found = place(0, levels, unopened)
    return None if found is None else list(found)


def _first_fit(levels: tuple[int, ...], unopened: int, parts: tuple[int, ...]) -> list[int] | None:
    """The same, but the first choice is the only one."""
    found = []
    for part in parts:
        level = next((each for each in levels if each >= part), CLOSED)
        if level == CLOSED and unopened <= 0:
            return None
        levels, unopened = _with(levels, unopened, level, part)
        found.append(level)
    return found


def _with(levels: tuple[int, ...], unopened: int, level: int, part: int) -> tuple[tuple[int, ...], int]:
    """What is left everywhere once a part has gone to a GPU with this much left."""
    if level == CLOSED:
        return tuple(sorted((*levels, GPU_MILLIS - part))), unopened - 1
    position = levels.index(level)
    return tuple(sorted((*levels[:position], level - part, *levels[position + 1 :]))), unopened
