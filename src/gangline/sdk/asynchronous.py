"""The client for programs that await: the same verbs, each carried out by a thread of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from gangline.sdk.client import Client

P = ParamSpec("P")
T = TypeVar("T")
_END: Any = object()


def _awaited(
    verb: Callable[Concatenate[Client, P], T],
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]":
    @wraps(verb)
    async def call(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(verb, self.client, *args, **kwargs)

    return call


def _streamed(
    verb: Callable[Concatenate[Client, P], Iterator[T]],
) -> "Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]":
    @wraps(verb)
    async def stream(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        found = await asyncio.to_thread(verb, self.client, *args, **kwargs)
        while (item := await asyncio.to_thread(next, found, _END)) is not _END:
            yield item

    return stream


class AsyncClient:
    """A ``Client`` whose verbs are awaited: ``await client.wait("mnist")``, ``async for line in client.logs("mnist")``.

    It is made with what makes a ``Client``, or with one. Verbs of other kinds are those of ``client`` itself.
    """

    def __init__(self, *args: Any, client: Client | None = None, **kwargs: Any) -> None:
        self.client = client or Client(*args, **kwargs)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.client.close)

    apply = _awaited(Client.apply)
    cancel = _awaited(Client.cancel)
    close = _awaited(Client.close)
    delete = _awaited(Client.delete)
    diff = _awaited(Client.diff)
    events = _awaited(Client.events)
    explain = _awaited(Client.explain)
    get = _awaited(Client.get)
    halt = _awaited(Client.halt)
    kill = _awaited(Client.kill)
    label = _awaited(Client.label)
    latest_metrics = _awaited(Client.latest_metrics)
    lineage = _awaited(Client.lineage)
    list = _awaited(Client.list)
    logs = _streamed(Client.logs)
    metrics = _awaited(Client.metrics)
    nodes = _awaited(Client.nodes)
    packages = _awaited(Client.packages)
    prune = _awaited(Client.prune)
    rerun = _awaited(Client.rerun)
    resume = _awaited(Client.resume)
    scale = _awaited(Client.scale)
    submit = _awaited(Client.submit)
    top_jobs = _awaited(Client.top_jobs)
    top_nodes = _awaited(Client.top_nodes)
    unfinished = _awaited(Client.unfinished)
    usage = _awaited(Client.usage)
    version = _awaited(Client.version)
    wait = _awaited(Client.wait)
    wait_until_gone = _awaited(Client.wait_until_gone)
    watch = _streamed(Client.watch)
    watch_all = _streamed(Client.watch_all)
