"""Handlers for what trainings say: pages of lines and metrics, and both as they come, over a WebSocket or as text."""

import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from aiohttp import web

from gangline import operations
from gangline.api.ffdl.requests import job_of
from gangline.api.rest.context import context_of
from gangline.api.rest.parameters import Parameters
from gangline.dialects.ffdl import line_to_plain, metric_to_plain
from gangline.model import Job, LogLine, Timestamp

Plain = dict[str, Any]
_PAGE, _MOST = 1000, 10_000


async def lines(request: web.Request) -> web.Response:
    """Return a page of the output."""
    job = await job_of(request)
    since, tail = _since(Parameters(request))
    return await _page(request, _lines(request, job, since, follow=False), tail)


async def metrics(request: web.Request) -> web.Response:
    """Return a page of what the training reported."""
    job = await job_of(request)
    since, tail = _since(Parameters(request))
    return await _page(request, _metrics(request, job, since), tail)


async def follow_lines(request: web.Request) -> web.StreamResponse:
    """Send the output, and with ``follow`` what is yet to come."""
    job = await job_of(request)
    parameters = Parameters(request)
    since, _ = _since(parameters)
    items = _lines(request, job, since, follow=parameters.truth("follow"))
    return await _sent(request, (f"{item['line']}\n" async for item in items))


async def follow_metrics(request: web.Request) -> web.StreamResponse:
    """Send what the training has reported."""
    job = await job_of(request)
    since, _ = _since(Parameters(request))
    return await _sent(request, (f"{json.dumps(item)}\n" async for item in _metrics(request, job, since)))


async def _lines(
    request: web.Request, job: Job, since: Timestamp | None, *, follow: bool
) -> AsyncGenerator[Plain, None]:
    wanted = operations.LogFilter(since=since)
    found: AsyncIterator[LogLine] = operations.logs(context_of(request), job.spec.tenant, job.id, wanted, follow=follow)
    number = 0
    async for line in found:
        number += 1
        yield line_to_plain(job, line, number)


async def _metrics(request: web.Request, job: Job, since: Timestamp | None) -> AsyncGenerator[Plain, None]:
    number, after = 0, None
    while True:
        page = await operations.metrics(context_of(request), job.spec.tenant, job.id, since=since, after=after)
        for metric in page.metrics:
            number += 1
            yield metric_to_plain(job, metric, number)
        if (after := page.next) is None:
            return


async def _page(request: web.Request, items: AsyncGenerator[Plain, None], tail: int | None) -> web.Response:
    """Return the items from a position on: from the beginning, or a negative one from the end."""
    parameters = Parameters(request)
    size = parameters.number("pagesize", least=1, most=_MOST) or _PAGE
    position = parameters.number("pos", least=-_MOST, most=2**53) or 0
    back = tail if tail is not None else -position if position < 0 else None
    if back is not None:
        async with aclosing(items):
            last = deque([item async for item in items], maxlen=back) if back else deque[Plain]()
        return web.json_response({"models": list(last)[:size]})
    found: list[Plain] = []
    number = 0
    async with aclosing(items):
        async for item in items:
            number += 1
            if number > position:
                found.append(item)
            if len(found) == size:
                break
    return web.json_response({"models": found})


def _since(parameters: Parameters) -> tuple[Timestamp | None, int | None]:
    """Read since_time: a time, milliseconds since 1970, or how many to count back."""
    text = parameters.text("since_time") or ""
    if not text.lstrip("-").isdecimal():
        return (parameters.time("since_time") if text else None), None
    number = parameters.number("since_time", least=-_MOST, most=2**53) or 0
    return (None, -number) if number < 0 else (Timestamp(number / 1000), None)


async def _sent(request: web.Request, texts: AsyncGenerator[str, None]) -> web.StreamResponse:
    """Send texts over a WebSocket where one is asked for, and as one text otherwise."""
    # A client that goes away has seen enough; nothing is owed to it.
    async with aclosing(texts):
        if request.headers.get("Upgrade", "").lower() == "websocket":
            socket = web.WebSocketResponse(heartbeat=30.0)
            await socket.prepare(request)
            with suppress(ConnectionResetError):
                async for text in texts:
                    await socket.send_str(text)
                await socket.close()
            return socket
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        await response.prepare(request)
        with suppress(ConnectionResetError):
            async for text in texts:
                await response.write(text.encode())
            await response.write_eof()
        return response
