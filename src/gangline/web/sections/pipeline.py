"""What a run of a pipeline shows: its graph, and every step with its job."""

from aiohttp import web

from gangline.kinds.pipeline import run_tree
from gangline.model.kinds.pipeline import PipelineRun
from gangline.pipelines import Instance, State
from gangline.web.html import Element, Node, h
from gangline.web.parts import drawing, lasting, section, state_badge, table

_WIDTH, _HEIGHT, _GAP = 180, 44, 36
_TONES = {
    State.SUCCEEDED: "good",
    State.FAILED: "bad",
    State.CANCELLED: "bad",
    State.RUNNING: "busy",
    State.DUE: "busy",
}


async def sections(request: web.Request, run: PipelineRun) -> Node:
    """Show the graph and the steps."""
    tree = run_tree(run)
    rows = [
        (step.path, state_badge(step.state), lasting(step.began_at, step.ended_at), step.reused_from, step.message)
        for step in run.status.steps
    ]
    headings = ("Step", "State", "Ran", "Reused from", "Message")
    return (
        section("Graph", _graph(tree), name="graph") if tree.children else None,
        section("Steps", table(headings, rows, caption="Steps", empty="No step has begun yet."), name="steps"),
    )


def _graph(parent: Instance) -> Element:
    """Draw the tasks of the run in columns, each behind all that it waits for."""
    tasks = {child.path[-1]: child for child in parent.children}
    upstream = {
        name: (child.task.upstream & tasks.keys() if child.task else frozenset()) for name, child in tasks.items()
    }
    columns: dict[str, int] = {}
    for name in tasks:
        columns[name] = 1 + max((columns[each] for each in upstream[name] if each in columns), default=-1)
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for name in tasks:
        row = rows.get(columns[name], 0)
        rows[columns[name]] = row + 1
        places[name] = (2 + columns[name] * (_WIDTH + _GAP), 2 + row * (_HEIGHT + 14))
    width = 4 + (max(columns.values()) + 1) * (_WIDTH + _GAP) - _GAP
    height = 4 + max(rows.values()) * (_HEIGHT + 14) - 14
    drawn: list[Node] = [_line(places[each], places[name]) for name in tasks for each in sorted(upstream[name])]
    for name, (x, y) in places.items():
        state = tasks[name].state
        drawn.append(h.rect(x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=6, cls=_TONES.get(state)))
        drawn.append(h.text(name if len(name) < 23 else f"{name[:21]}…", x=x + 10, y=y + 18))
        drawn.append(h.text(str(state), x=x + 10, y=y + 35))
    words = "; ".join(f"{name}: {tasks[name].state}" for name in tasks)
    return drawing(drawn, width, height, label=words, title="Graph of the steps", cls="graph")


def _line(start: tuple[int, int], end: tuple[int, int]) -> Element:
    x, y, u, v = start[0] + _WIDTH, start[1] + _HEIGHT // 2, end[0], end[1] + _HEIGHT // 2
    middle = (x + u) // 2
    return h.path(d=f"M{x} {y} C{middle} {y} {middle} {v} {u} {v}")
