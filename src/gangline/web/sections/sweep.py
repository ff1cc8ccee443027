"""What a sweep shows: its best trials, which parameters mattered, parallel coordinates, and every trial."""

from typing import Any

from aiohttp import web

from gangline.model.kinds.sweep import SweepStatus
from gangline.model.search.parameter import Parameter
from gangline.model.wording import number
from gangline.sweeps.results import coordinates, ranked
from gangline.sweeps.view import best_text, result_text
from gangline.web.frame import address, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.parts import bar, drawing, lasting, phase_badge, section, table

_TRIALS = 200
_LINES = 300
_LONGEST = 16


async def sections(request: web.Request, sweep: SweepStatus) -> Node:
    """Show what it found."""
    tenant = tenant_here(request)
    names = [parameter.name for parameter in sweep.spec.parameters]
    order = {trial.number: place for place, trial in enumerate(ranked(sweep))}
    trials = sorted(sweep.trials, key=lambda trial: (order.get(trial.number, len(order)), trial.number))[:_TRIALS]
    objective = sweep.spec.objective
    rows = [
        (
            trial.number,
            h.a(trial.job, href=address(tenant, "jobs", trial.job), cls="name"),
            phase_badge(trial.phase),
            result_text(trial),
            *(trial.values.get(name, "–") for name in names),
            lasting(trial.started_at, trial.finished_at),
        )
        for trial in trials
    ]
    headings = ("Trial", "Job", "Phase", objective.metric if objective else "Result", *names, "Ran")
    return (
        section("Best", h.p(best_text(sweep) or "No trial has reported a result yet."), name="best"),
        section("Parallel coordinates", _lines(sweep, names), name="lines") if len(order) > 1 else None,
        section("Which parameters mattered", _importance(sweep.importance), name="importance")
        if sweep.importance
        else None,
        section("Trials", table(headings, rows, caption="Trials, the best first"), name="trials"),
    )


def _importance(found: Any) -> Element:
    pairs = sorted(dict(found).items(), key=lambda pair: -pair[1])
    most = max((value for _, value in pairs), default=1.0) or 1.0
    return h.div([h.p(f"{name}: {value:.0%}", bar(value, most, "what mattered most")) for name, value in pairs])


def _ends(parameter: Parameter) -> tuple[str, str]:
    """What lies at both ends of a parameter's axis; long values are cut."""
    if parameter.range is not None:
        return number(parameter.range.low), number(parameter.range.high)
    return parameter.values[0][:_LONGEST], parameter.values[-1][:_LONGEST]


def _lines(sweep: SweepStatus, names: list[str]) -> Element:
    """Every trial as a line over the axes of the parameters; the last axis is the result."""
    found = coordinates(sweep)[:_LINES]
    results = [each.result for each in found]
    least, most = min(results), max(results)
    width, height, top, bottom = max(150 * len(names), 290), 240, 40, 215
    axes = len(names)

    def point(axis: int, place: float) -> str:
        return f"{20 + axis * (width - 40) / axes:.1f},{bottom - place * (bottom - top):.1f}"

    drawn: list[Node] = []
    for line in reversed(found):  # the best is drawn last, above the others
        places = [*line.places, (line.result - least) / (most - least) if most > least else 0.5]
        points = " ".join(point(axis, place) for axis, place in enumerate(places) if place is not None)
        drawn.append(h.polyline(points=points, cls="best" if line is found[0] else None))
    objective = sweep.spec.objective
    for axis, name in enumerate([*names, objective.metric if objective else "result"]):
        x = 20 + axis * (width - 40) / axes
        anchor = "start" if axis == 0 else "end" if axis == axes else "middle"
        drawn.append(h.line(x1=f"{x:.1f}", x2=f"{x:.1f}", y1=top, y2=bottom, cls="axis"))
        drawn.append(h.text(name, x=f"{x:.1f}", y=14, text_anchor=anchor, cls="of"))
        ends = (number(least), number(most)) if axis == axes else _ends(sweep.spec.parameters[axis])
        for text, y in zip(ends, (bottom + 16, top - 8), strict=True):
            drawn.append(h.text(text, x=f"{x:.1f}", y=y, text_anchor=anchor))
    label = f"{len(found)} trials; the best is trial {found[0].trial.number} with {number(found[0].result)}"
    return drawing(drawn, width, height, label=label, title="Parallel coordinates", cls="lines")
