"""Curves in a terminal: one canvas of braille dots for all, and below it a line for each with its own small curve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from gangline.cli.output.drawings.curves import Curve, Scale, scaled

_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bit of each dot of a braille letter, by column and row."""

_BLOCKS = "▁▂▃▄▅▆▇█"
_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green", "bright_magenta")
_HEIGHT = 14
_SPARK_WIDTH = 20
_DEFAULT_WIDTH = 80
LINEAR = Scale()


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The ranges that a canvas shows."""

    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def around(cls, curves: Sequence[Curve]) -> "Frame":
        """The smallest frame that holds every point; one without width or height is widened."""
        points = [point for curve in curves for point in curve.points]
        left, right = min(x for x, _ in points), max(x for x, _ in points)
        bottom, top = min(y for _, y in points), max(y for _, y in points)
        margin = 0.0 if top > bottom else abs(top) / 2 or 0.5
        return cls(left=left, right=right if right > left else left + 1.0, bottom=bottom - margin, top=top + margin)


class Canvas:
    """Letters of two by four dots each; a letter has the colour of the curve that touched it last."""

    def __init__(self, width: int, height: int, frame: Frame) -> None:
        self._columns, self._rows = width * 2, height * 4
        self._frame = frame
        self._bits = [[0] * width for _ in range(height)]
        self._owners: list[list[int | None]] = [[None] * width for _ in range(height)]

    def add(self, curve: Curve, owner: int) -> None:
        """Draw a curve as a line through its points."""
        places = [self._place(x, y) for x, y in curve.points]
        for begin, end in zip(places, places[1:] or places, strict=False):
            self._line(begin, end, owner)

    def lines(self, *, coloured: bool) -> list[str]:
        """Return the canvas, one string per row."""
        return [
            "".join(
                _painted(chr(_BLANK + bits), owner if coloured else None)
                for bits, owner in zip(row, owners, strict=True)
            )
            for row, owners in zip(self._bits, self._owners, strict=True)
        ]

    def _place(self, x: float, y: float) -> tuple[int, int]:
        frame = self._frame
        across = (x - frame.left) / (frame.right - frame.left)
        up = (y - frame.bottom) / (frame.top - frame.bottom)
        return round(across * (self._columns - 1)), round((1 - up) * (self._rows - 1))

    def _line(self, begin: tuple[int, int], end: tuple[int, int], owner: int) -> None:
        steps = max(abs(end[0] - begin[0]), abs(end[1] - begin[1]), 1)
        for step in range(steps + 1):
            column = round(begin[0] + (end[0] - begin[0]) * step / steps)
            row = round(begin[1] + (end[1] - begin[1]) * step / steps)
            self._bits[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
            self._owners[row // 4][column // 2] = owner


def draw(
    title: str,
    curves: Sequence[Curve],
    *,
    width: int | None = None,
    coloured: bool = False,
    unit: str = "s",
    scale: Scale = LINEAR,
) -> list[str]:
    """Return the lines of a plot; ``unit`` is what is written behind the ends of the horizontal axis."""
    lasts = {curve.label: curve.last for curve in curves}
    shown = [placed for curve in curves if (placed := scaled(curve, scale)).points]
    if not shown:
        return [f"{title}: nothing was reported"]
    frame = Frame.around(shown)
    heights = (frame.top, (frame.top + frame.bottom) / 2, frame.bottom)
    labels = [f"{scale.value(height, vertical=True):.4g}" for height in heights]
    gutter = max(len(label) for label in labels)
    canvas = Canvas(max((width or _DEFAULT_WIDTH) - gutter - 2, 10), _HEIGHT, frame)
    for number, curve in enumerate(shown):
        canvas.add(curve, number)
    at_rows = {0: labels[0], _HEIGHT // 2: labels[1], _HEIGHT - 1: labels[2]}
    body = [
        f"{at_rows.get(number, ''):>{gutter}} ┤{line}" for number, line in enumerate(canvas.lines(coloured=coloured))
    ]
    left, right = (scale.value(place, vertical=False) for place in (frame.left, frame.right))
    ends = f"{'':>{gutter}}  {left:.4g}{unit} to {right:.4g}{unit}"
    return [title, *body, ends, *_legend(shown, lasts, frame, coloured=coloured)]


def spark(curve: Curve, frame: Frame, width: int = _SPARK_WIDTH) -> str:
    """Return a curve as a few blocks, each as high as the last value before it."""
    found, values = "", iter(curve.points)
    upcoming, height = next(values, None), 0
    for column in range(width):
        border = frame.left + (frame.right - frame.left) * (column + 1) / width
        while upcoming is not None and upcoming[0] <= border:
            share = (upcoming[1] - frame.bottom) / (frame.top - frame.bottom)
            height = round(share * (len(_BLOCKS) - 1))
            upcoming = next(values, None)
        found += _BLOCKS[height] if curve.points[0][0] <= border else " "
    return found


def _legend(curves: Sequence[Curve], lasts: Mapping[str, float | None], frame: Frame, *, coloured: bool) -> list[str]:
    longest = max(len(curve.label) for curve in curves)
    return [
        f"{_painted(spark(curve, frame), number if coloured else None)}  "
        f"{curve.label:<{longest}}  {lasts[curve.label]:.6g}"
        for number, curve in enumerate(curves)
    ]


def _painted(text: str, owner: int | None) -> str:
    return text if owner is None else click.style(text, fg=_COLOURS[owner % len(_COLOURS)])
