"""What a controller in a cluster shows of itself: is it alive, is it ready, and numbers for a monitoring system.

The page is Prometheus's text format, written by hand: a dozen lines need no library. Only ``cluster`` uses it.
"""

import resource
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web

from gangline import __version__
from gangline.model import Phase

_CONTENT = "text/plain; version=0.0.4"
_KIBI = 1024


@dataclass(slots=True)
class Meter:
    """Numbers of this process since it began; they are counted on through every term as leader."""

    steps: int = 0
    step_seconds: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    jobs: Callable[[], Mapping[Phase, int]] = dict
    """How many jobs are in which phase, as far as this process knows: nothing while another one leads."""

    def note_step(self, took: float) -> None:
        """Count a step of the controller."""
        self.steps += 1
        self.step_seconds += took

    def note_event(self, kind: str) -> None:
        """Count a piece of news."""
        self.events[kind] += 1


def make_health_app(*, meter: Meter, leads: Callable[[], bool], in_contact: Callable[[], bool]) -> web.Application:
    """Build the application. ``in_contact`` says whether the API server answered lately: without it nothing works."""

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        if in_contact():
            return web.Response(text="ok\n")
        return web.Response(text="the API server does not answer\n", status=HTTPStatus.SERVICE_UNAVAILABLE)

    async def numbers(_: web.Request) -> web.Response:
        return web.Response(text=meter_to_text(meter, leads=leads()), headers={"Content-Type": _CONTENT})

    app = web.Application()
    app.add_routes([web.get("/healthz", alive), web.get("/readyz", ready), web.get("/metrics", numbers)])
    return app


def meter_to_text(meter: Meter, *, leads: bool) -> str:
    """Write all numbers as Prometheus reads them."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    jobs = meter.jobs()
    lines = [
        *_metric("gangline_build_info", "gauge", "The version.", [(f'{{version="{__version__}"}}', 1)]),
        *_metric("gangline_leader", "gauge", "Whether this process leads.", [("", int(leads))]),
        *_metric(
            "gangline_jobs",
            "gauge",
            "Jobs by phase.",
            [(f'{{phase="{phase}"}}', jobs[phase]) for phase in sorted(jobs)],
        ),
        *_metric(
            "gangline_events_total",
            "counter",
            "News handled, by kind.",
            [(f'{{kind="{kind}"}}', count) for kind, count in sorted(meter.events.items())],
        ),
        *_metric(
            "gangline_step_seconds",
            "summary",
            "Time from waking up until nothing more followed: news, records and scheduling.",
            [("_sum", round(meter.step_seconds, 6)), ("_count", meter.steps)],
        ),
        *_metric(
            "process_cpu_seconds_total", "counter", "CPU time used.", [("", round(used.ru_utime + used.ru_stime, 3))]
        ),
        *_metric("process_peak_memory_bytes", "gauge", "Most memory ever resident.", [("", used.ru_maxrss * _KIBI)]),
    ]
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, text: str, values: Iterable[tuple[str, float]]) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *(f"{name}{suffix} {value}" for suffix, value in values)]
