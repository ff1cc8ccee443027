"""Tables that align, and that fit the terminal when there is one. A row is one line, whatever its cells say."""

from collections.abc import Iterable, Sequence

import click

_GAP = "  "
_LEAST_LAST = 12
_BREAKS = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def lines(headings: Sequence[str], rows: Iterable[Sequence[str]], *, width: int | None = None) -> list[str]:
    """Lay out a table. The last column takes what is left of ``width`` and is cut, with an ellipsis, to fit it."""
    cells = [list(headings), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(_length(row[column]) for row in cells) for column in range(len(headings))]
    if width is not None:
        before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(_LEAST_LAST, width - before))
    return [_line(row, widths) for row in cells]


def one_line(text: str) -> str:
    """Write a text of several lines, a program in a command say, on one: breaks and tabs as they are typed."""
    return text.translate(_BREAKS)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * (width - _length(cell)) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
    return _GAP.join([*padded, _cut(row[-1], widths[-1])]).rstrip()


def _cut(text: str, width: int) -> str:
    return text if _length(text) <= width else f"{click.unstyle(text)[: width - 1]}…"


def _length(text: str) -> int:
    return len(click.unstyle(text))
