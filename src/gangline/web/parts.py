"""Small parts that several pages show: times, phases, tables, commands, forms that ask before they destroy."""

import math
import shlex
from collections.abc import Sequence

from aiohttp import web

from gangline.model import ACTIVE_PHASES, FINAL_PHASES, Job, Phase, Timestamp
from gangline.model.wording import counted
from gangline.web.frame import form
from gangline.web.html import Element, Node, h
from gangline.wire import iso

_TONES = {Phase.COMPLETED: "good", Phase.FAILED: "bad", Phase.CANCELLED: "idle", Phase.HALTED: "idle"}


def moment(at: Timestamp | None) -> Node:
    """A time; the browser says how long ago that is."""
    return "–" if at is None else h.time(_readable(at), datetime=iso(at), data_ago=True)


def lasting(since: Timestamp | None, until: Timestamp | None) -> Node:
    """How long something took, or takes so far."""
    if since is None:
        return "–"
    return h.time(
        _readable(since), datetime=iso(since), data_since=True, data_until=None if until is None else iso(until)
    )


def _readable(at: Timestamp) -> str:
    return iso(at)[:19].replace("T", " ") + " UTC"


def phase_badge(phase: Phase) -> Element:
    """A phase as a coloured word."""
    return badge(phase.value, _TONES.get(phase, "busy" if phase in ACTIVE_PHASES else "wait"))


def badge(word: str, tone: str) -> Element:
    """A coloured word: good, bad, busy, wait or idle."""
    return h.span(word, cls=f"badge {tone}")


def state_badge(state: str) -> Element:
    """The state of a record or replica as a coloured word."""
    words = {
        "good": ("ready", "succeeded", "finished", "completed", "active"),
        "bad": ("failed", "lost", "deleting", "degraded"),
        "busy": ("running", "progressing", "rolling"),
    }
    tone = next((tone for tone, states in words.items() if state.lower() in states), "wait")
    return badge(state, tone)


def table(headings: Sequence[Node], rows: Sequence[Sequence[Node]], *, caption: str, empty: str = "None.") -> Element:
    """A table that scrolls by itself where it is too wide; its caption is for those who cannot see it."""
    if not rows:
        return h.p(empty, cls="faint")
    return h.div(
        h.table(
            h.caption(caption, cls="hidden"),
            h.thead(h.tr([h.th(each, scope="col") for each in headings])),
            h.tbody([h.tr([h.td(cell) for cell in row]) for row in rows]),
        ),
        cls="scroll",
        tabindex="0",
        role="group",
        aria_label=caption,
    )


def facts(pairs: Sequence[tuple[str, Node]]) -> Element:
    """Names and what they stand for; what is empty is left out."""
    return h.dl([(h.dt(name), h.dd(value)) for name, value in pairs if value not in (None, "", ())], cls="facts")


def command(*words: str) -> Element:
    """The command that does the same."""
    return h.code(shlex.join(("gangline", *words)), cls="command")


def commands(*lines: tuple[str, ...]) -> Element:
    """The commands that show the same as this page."""
    return h.details(h.summary("The same on the command line"), [h.p(command(*words)) for words in lines])


def section(title: str, *children: Node, name: str) -> Element:
    """A part of a page with a heading."""
    return h.section(h.h2(title, id=name), children, aria_labelledby=name)


def act(request: web.Request, label: str, action: str, words: Sequence[str], *inputs: Node) -> Element:
    """A button that acts at once, with the command that does the same."""
    return form(request, action, inputs, h.button(label, title=shlex.join(("gangline", *words))), cls="inline")


def ask_first(
    request: web.Request, label: str, warning: str, action: str, words: Sequence[str], *inputs: Node
) -> Element:
    """A button that says what it destroys, and acts when it is pressed again."""
    return h.details(
        h.summary(f"{label}…", cls="button"),
        form(request, action, h.p(warning), inputs, h.p(command(*words)), h.button(label, cls="danger"), cls="sheet"),
        cls="asking",
        name="asking",
    )


def timeline(job: Job, now: Timestamp) -> Element:
    """The phases of a job on a line of time."""
    start = job.history[0].at
    grain = max(1.0, (now - start) / 100)  # a page that looks the same is not sent again
    now = Timestamp(start + math.ceil((now - start) / grain) * grain)
    ends = [*(each.at for each in job.history[1:]), job.finished_at or now]
    end = max(ends[-1], job.history[-1].at)
    span = max(end - start, 1e-3)
    bars: list[Node] = []
    for entry, until in zip(job.history, ends, strict=True):
        if entry.phase in FINAL_PHASES:
            continue
        left, width = 100 * (entry.at - start) / span, 100 * max(until - entry.at, 0) / span
        tone = "halted" if entry.phase in (Phase.HALTED, Phase.HALTING) else entry.phase.value.lower()
        bars.append(h.rect(x=f"{left:.2f}%", y=0, width=f"{max(width, 0.4):.2f}%", height=18, cls=f"phase {tone}"))
    rows = [
        h.li(
            phase_badge(entry.phase),
            " ",
            moment(entry.at),
            " ",
            entry.reason,
            f": {entry.message}" * bool(entry.message),
        )
        for entry in job.history
    ]
    label = ", ".join(f"{entry.phase} at {iso(entry.at)[11:19]}" for entry in job.history[-12:])
    return h.div(
        h.svg(bars, role="img", aria_label=f"Phases: {label}", width="100%", height=18, cls="timeline"),
        h.details(h.summary(counted(len(rows), "phase")), h.ol(rows, cls="plain")),
    )


def bar(part: float, whole: float, what: str) -> Element:
    """How much of something is taken, as a bar."""
    share = 0.0 if whole <= 0 else part / whole
    width = f"{100 * min(share, 1):.1f}%"
    used = h.rect(x=0, y=0, width=width, height=8, rx=3, cls="over" if share > 1 else "used")
    return h.svg(used, width="100%", height=8, cls="bar", role="img", aria_label=f"{share:.0%} of {what}")


def drawing(content: Node, width: int, height: int, *, label: str, title: str, cls: str) -> Element:
    """A drawing that scrolls where it is too wide; the label says what it shows to those who cannot see it."""
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    picture = h.svg(content, role="img", aria_label=label, cls=cls, **size)
    return h.div(picture, cls="scroll", tabindex="0", role="group", aria_label=title)
