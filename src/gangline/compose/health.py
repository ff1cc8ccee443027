"""What a controller in a cluster shows of itself: is it alive, is it ready, and numbers for a monitoring system.

The page is Prometheus's text format, written by hand: a dozen lines need no library. Only ``cluster`` uses it.
"""

import resource
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter

from aiohttp import web

from gangline import __version__
from gangline.controller import Controller
from gangline.engines.interface import Engine, EngineEvent
from gangline.lifecycle import Event
from gangline.model import Clock, Phase
from gangline.scheduling import Policies
from gangline.storage.interface import Store

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


class MeteredController(Controller):
    """A controller whose steps and news are counted; it decides nothing differently."""

    def __init__(self, meter: Meter, *, store: Store, engine: Engine, clock: Clock, policies: Policies) -> None:
        super().__init__(store=store, engine=engine, clock=clock, policies=policies)
        self._meter = meter

    async def settle(self) -> None:
        """Handle everything that is known now; see Controller."""
        began = perf_counter()
        try:
            await super().settle()
        finally:
            self._meter.steps += 1
            self._meter.step_seconds += perf_counter() - began

    def hear(self, event: EngineEvent | Event) -> None:
        """Take news in; see Controller."""
        self._meter.events[type(event).__name__] += 1
        super().hear(event)


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
