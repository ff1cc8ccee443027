"""What a router tells on its control socket: statistics, metrics, and that a new table is in force."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from aiohttp import web

from gangline.errors import InvalidInputError
from gangline.model.routing import (
    LATENCY_BOUNDS,
    RevisionStatistics,
    RouterStatistics,
    encode_statistics,
)

_LONGEST_WAIT_SECONDS = 60.0
_METRICS = "text/plain"
_OPEN = ("/metrics", "/healthz")
_MOST_BYTES = 16 << 20
"""Of a table."""

Statistics = Callable[[], RouterStatistics]


def control_application(
    statistics: Statistics, reload: Callable[[], Awaitable[None]], somebody_waits: asyncio.Event
) -> web.Application:
    """Build what answers on the control socket, which only the control plane reaches."""

    async def answer_statistics(request: web.Request) -> web.Response:
        try:
            seconds = min(float(request.query.get("wait", "0")), _LONGEST_WAIT_SECONDS)
        except ValueError:
            raise web.HTTPBadRequest(text="wait is not a number of seconds") from None
        if seconds > 0:
            somebody_waits.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await somebody_waits.wait()
        return web.Response(body=encode_statistics(statistics()), content_type="application/json")

    async def answer_reload(_: web.Request) -> web.Response:
        try:
            await reload()
        except (InvalidInputError, OSError) as error:
            raise web.HTTPConflict(text=str(error)) from error
        return web.Response(body=encode_statistics(statistics()), content_type="application/json")

    application = metrics_application(statistics)
    application.router.add_get("/statistics", answer_statistics)
    application.router.add_post("/reload", answer_reload)
    return application


def remote_application(
    statistics: Statistics,
    reload: Callable[[], Awaitable[None]],
    somebody_waits: asyncio.Event,
    replace: Callable[[bytes], Awaitable[None]],
    token: str,
) -> web.Application:
    """Build what answers a control plane on another machine, which sends tables and knows a token."""

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        said = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if request.path not in _OPEN and not hmac.compare_digest(said.encode(), token.encode()):
            raise web.HTTPUnauthorized
        return await handler(request)

    async def answer_table(request: web.Request) -> web.Response:
        try:
            await replace(await request.read())
        except (InvalidInputError, OSError) as error:
            raise web.HTTPConflict(text=str(error)) from error
        return web.Response(body=encode_statistics(statistics()), content_type="application/json")

    application = control_application(statistics, reload, somebody_waits)
    application.middlewares.append(guard)
    application.router.add_put("/table", answer_table)
    return application


def metrics_application(statistics: Statistics) -> web.Application:
    """Build what answers Prometheus and whoever asks whether the router lives."""

    async def answer_metrics(_: web.Request) -> web.Response:
        return web.Response(text=metrics_text(statistics()), content_type=_METRICS)

    async def answer_health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    application = web.Application(client_max_size=_MOST_BYTES)
    application.router.add_get("/metrics", answer_metrics)
    application.router.add_get("/healthz", answer_health)
    return application


def metrics_text(statistics: RouterStatistics) -> str:
    """Write statistics as Prometheus reads them."""
    return "".join(f"{line}\n" for line in _lines(statistics))


def _lines(statistics: RouterStatistics) -> Iterator[str]:
    yield from _head("table_version", "gauge", "The version of the routing table in force.")
    yield f"gangline_router_table_version {statistics.version}"
    for name, kind, help_text, rows in _FAMILIES:
        yield from _head(name, kind, help_text)
        for each in statistics.revisions:
            for labels, value in rows(each):
                yield f"gangline_router_{name}{_labels(each, labels)} {value}"
    yield from _head("request_seconds", "histogram", "Seconds from a request's arrival to the end of its answer.")
    for each in statistics.revisions:
        yield from _histogram(each)


def _head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP gangline_router_{name} {help_text}"
    yield f"# TYPE gangline_router_{name} {kind}"


def _histogram(each: RevisionStatistics) -> Iterator[str]:
    below = 0
    for bound, count in zip((*LATENCY_BOUNDS, "+Inf"), each.latency.counts, strict=True):
        below += count
        yield f"gangline_router_request_seconds_bucket{_labels(each, {'le': str(bound)})} {below}"
    yield f"gangline_router_request_seconds_sum{_labels(each, {})} {each.latency.seconds}"
    yield f"gangline_router_request_seconds_count{_labels(each, {})} {below}"


Rows = list[tuple[dict[str, str], int]]

_FAMILIES: tuple[tuple[str, str, str, Callable[[RevisionStatistics], Rows]], ...] = (
    ("requests_under_way", "gauge", "Requests that a backend has.", lambda each: [({}, each.under_way)]),
    ("requests_held", "gauge", "Requests that wait for a backend.", lambda each: [({}, each.held)]),
    ("requests_total", "counter", "Requests ended.", lambda each: [({}, each.requests)]),
    ("retries_total", "counter", "Attempts after the first.", lambda each: [({}, each.retries)]),
    (
        "answers_total",
        "counter",
        "Answers by class of status.",
        lambda each: [({"status": status}, count) for status, count in sorted(each.answers.items())],
    ),
    (
        "errors_total",
        "counter",
        "What went wrong, by class.",
        lambda each: [({"class": kind}, count) for kind, count in sorted(each.errors.items())],
    ),
    (
        "backend_requests_under_way",
        "gauge",
        "Requests that one backend has.",
        lambda each: [({"backend": backend.address}, backend.under_way) for backend in each.backends],
    ),
    (
        "backend_ejected",
        "gauge",
        "1 while a backend is left alone.",
        lambda each: [({"backend": backend.address}, int(backend.ejected)) for backend in each.backends],
    ),
)


def _labels(each: RevisionStatistics, more: dict[str, str]) -> str:
    values = {"service": each.service, "revision": each.revision, **more}
    escaped = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in values.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
