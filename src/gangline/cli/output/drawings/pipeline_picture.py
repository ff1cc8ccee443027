"""A run of a pipeline as a drawing: the tasks of each graph in columns, from what comes first to what comes last."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import click

from gangline.errors import InvalidInputError
from gangline.kinds.pipeline import run_tree
from gangline.model.kinds.pipeline import PipelineRun
from gangline.pipelines import Instance, State

_COLORS = {
    State.SUCCEEDED: "#2e7d32",
    State.FAILED: "#c62828",
    State.CANCELLED: "#c62828",
    State.RUNNING: "#1565c0",
    State.DUE: "#1565c0",
}
_WAITING = "#757575"
_WIDTH, _HEIGHT, _GAP, _MARGIN, _TITLE = 168, 40, 28, 14, 22
_LETTERS = 21
_MOST_BELOW = 8
"""So many items of a loop stand below each other; more are put into columns, about as many as there are rows."""
_MOST_ITEMS = 100
"""The most items of a loop that are drawn: those that need a look first, and how many others there are."""


@dataclass(frozen=True, slots=True)
class Box:
    """One task with what is in it, as large as that needs."""

    width: int
    height: int
    drawn: str


def write_drawing(run: PipelineRun, file: str) -> None:
    """Write the drawing of a run into a file."""
    text = drawing(run)
    if file == "-":
        click.echo(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"the drawing cannot be written: {error}", file=file) from error


def drawing(run: PipelineRun) -> str:
    """Draw a run as SVG."""
    inside = _graph(run_tree(run))
    width, height = inside.width + 2 * _MARGIN, inside.height + 2 * _MARGIN + _TITLE
    title = _text(_MARGIN, _MARGIN + 8, f"{run.name}: {run.state}", "#000")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
        f"{title}{_moved(inside, _MARGIN, _MARGIN + _TITLE)}</svg>"
    )


def _graph(parent: Instance) -> Box:
    """Draw the children: items of a loop as they come, tasks of a graph in columns with lines between them."""
    if parent.children and all(child.task and child.task.name != child.path[-1] for child in parent.children):
        return _loop(parent.children)
    boxes = {child.path[-1]: _task(child) for child in parent.children}
    names = {child.task.name for child in parent.children if child.task}
    upstream = {
        child.path[-1]: (
            child.task.upstream & names if child.task and child.task.name == child.path[-1] else frozenset()
        )
        for child in parent.children
    }
    columns: dict[str, int] = {}
    for name in boxes:  # each behind all that it waits for, as the children are ordered
        columns[name] = 1 + max((columns[each] for each in upstream[name] if each in columns), default=-1)
    rows: dict[str, float] = {}
    members: list[list[str]] = []
    for column in range(max(columns.values(), default=-1) + 1):
        # Beside what they wait for, so that few lines cross.
        beside = {
            name: sum(rows[each] for each in upstream[name]) / max(1, len(upstream[name]))
            for name in boxes
            if columns[name] == column
        }
        members.append(sorted(beside, key=lambda name: beside[name]))
        rows.update({name: float(row) for row, name in enumerate(members[-1])})
    return _in_columns(members, boxes, upstream)


def _loop(items: Sequence[Instance]) -> Box:
    """Draw the items of a loop; of very many only some, those that have not succeeded first."""
    shown = sorted(items, key=lambda item: item.state in (State.SUCCEEDED, State.SKIPPED))[:_MOST_ITEMS]
    shown.sort(key=lambda item: int(item.path[-1]))
    boxes = {item.path[-1]: _task(item) for item in shown}
    if others := len(items) - len(shown):
        lines = _text(8, 17, f"{others:,} more", "#000") + _text(8, 32, "not drawn", _WAITING)
        boxes["…"] = Box(_WIDTH, _HEIGHT, f"<g>{_frame(_WIDTH, _HEIGHT, _WAITING)}{lines}</g>")
    names = list(boxes)
    rows = len(names) if len(names) <= _MOST_BELOW else math.ceil(math.sqrt(len(names)))
    return _in_columns([names[first : first + rows] for first in range(0, len(names), rows)], boxes, {})


def _in_columns(
    columns: Sequence[Sequence[str]], boxes: Mapping[str, Box], upstream: Mapping[str, frozenset[str]]
) -> Box:
    left, height, places = 0, 0, dict[str, tuple[int, int]]()
    for members in columns:
        top = 0
        for name in members:
            places[name] = left, top
            top += boxes[name].height + _GAP // 2
        height = max(height, top - _GAP // 2)
        left += max(boxes[name].width for name in members) + _GAP
    lines = [_line(places[each], boxes[each], places[name]) for name in upstream for each in sorted(upstream[name])]
    drawn = "".join([*lines, *(_moved(boxes[name], *places[name]) for name in boxes)])
    return Box(max(0, left - _GAP), height, drawn)


def _task(instance: Instance) -> Box:
    color = _COLORS.get(instance.state, _WAITING)
    name = instance.path[-1]
    label = f"[{name}]" if instance.task and instance.task.name != name else name
    hint = f"<title>{escape(f'{label}: {instance.state} {instance.message}'.strip())}</title>"
    if not instance.children:
        lines = _text(8, 17, label, "#000", limit=_LETTERS) + _text(8, 32, str(instance.state), color)
        return Box(_WIDTH, _HEIGHT, f"<g>{hint}{_frame(_WIDTH, _HEIGHT, color)}{lines}</g>")
    inside = _graph(instance)
    width, height = max(_WIDTH, inside.width + 2 * _MARGIN), inside.height + 2 * _MARGIN + _TITLE
    title = _text(8, 17, f"{label}: {instance.state}", color, limit=_LETTERS * 2)
    drawn = f"{hint}{_frame(width, height, color)}{title}{_moved(inside, _MARGIN, _MARGIN + _TITLE)}"
    return Box(width, height, f"<g>{drawn}</g>")


def _frame(width: int, height: int, color: str) -> str:
    return f'<rect width="{width}" height="{height}" rx="5" fill="#fff" stroke="{color}" stroke-width="1.5"/>'


def _text(x: int, y: int, text: str, color: str, *, limit: int = 60) -> str:
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return f'<text x="{x}" y="{y}" fill="{color}">{escape(shown)}</text>'


def _line(start: tuple[int, int], box: Box, end: tuple[int, int]) -> str:
    x, y = start[0] + box.width, start[1] + min(box.height, _HEIGHT) // 2
    u, v = end[0], end[1] + _HEIGHT // 2
    middle = (x + u) // 2
    return f'<path d="M{x} {y} C{middle} {y} {middle} {v} {u} {v}" fill="none" stroke="{_WAITING}"/>'


def _moved(box: Box, x: int, y: int) -> str:
    return f'<g transform="translate({x} {y})">{box.drawn}</g>'
