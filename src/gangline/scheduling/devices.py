"""Parts of different sizes on the GPUs of one node: which go together, exactly.

Replicas of one size are put on the fullest GPU with room (see ``Draft``), which is as good as it gets. With several
sizes that may fail where another arrangement would do; this settles it.
"""

from collections.abc import Sequence
from functools import cache

from gangline.scheduling.shapes import GPU_MILLIS

CLOSED = -1
"""A slot that stands for no GPU."""


def arrange(levels: Sequence[int], unopened: int, parts: Sequence[int]) -> list[int] | None:
    """Give each part a slot, or return None when no arrangement exists.

    ``levels`` says what is left in every slot (CLOSED: not opened); at most ``unopened`` more may be opened.
    """
    order = sorted(range(len(parts)), key=lambda number: -parts[number])
    found = _fill(tuple(levels), unopened, tuple(parts[number] for number in order))
    if found is None:
        return None
    slots = [CLOSED] * len(parts)
    for number, slot in zip(order, found, strict=True):
        slots[number] = slot
    return slots


def _fill(levels: tuple[int, ...], unopened: int, parts: tuple[int, ...]) -> list[int] | None:
    """The large ones first, each in the fullest slot that leads to a solution."""

    @cache
    def place(index: int, levels: tuple[int, ...], unopened: int) -> tuple[int, ...] | None:
        if index == len(parts):
            return ()
        for slot in _choices(levels, unopened, parts[index]):
            opened = levels[slot] == CLOSED
            left = (GPU_MILLIS if opened else levels[slot]) - parts[index]
            rest = place(index + 1, (*levels[:slot], left, *levels[slot + 1 :]), unopened - opened)
            if rest is not None:
                return (slot, *rest)
        return None

    found = place(0, levels, unopened)
    return None if found is None else list(found)


def _choices(levels: tuple[int, ...], unopened: int, part: int) -> list[int]:
    """Slots worth trying, the fullest first; of several with the same left in them, only the first."""
    different = {level: slot for slot, level in reversed(list(enumerate(levels))) if level >= part}
    choices = [different[level] for level in sorted(different)]
    return [*choices, levels.index(CLOSED)] if unopened > 0 and CLOSED in levels else choices
