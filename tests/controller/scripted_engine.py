"""An engine that does only what a test tells it: orders are recorded, news is given by hand."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from gangline.engines.interface import Engine, EngineEvent, LogQuery
from gangline.errors import EngineError
from gangline.model import Clean, Gang, GangId, JobId, LogLine, Node, Usage
from gangline.testing.builders import make_node


class ScriptedEngine:
    def __init__(self, nodes: Sequence[Node] | None = None) -> None:
        self.machines = list(nodes or [make_node()])
        self.orders: list[tuple[str, object]] = []
        self.failing = 0
        self.news: asyncio.Queue[EngineEvent] = asyncio.Queue()

    def _order(self, verb: str, what: object) -> None:
        if self.failing:
            self.failing -= 1
            raise EngineError("not now")
        self.orders.append((verb, what))

    async def nodes(self) -> Sequence[Node]:
        return tuple(self.machines)

    async def run(self, gang: Gang) -> None:
        self._order("run", gang)

    async def finish(self, gang: Gang) -> None:
        self._order("finish", gang.id)

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        self._order("stop", gang_id)

    async def events(self) -> AsyncIterator[EngineEvent]:
        while True:
            yield await self.news.get()

    async def logs(self, query: LogQuery) -> AsyncIterator[LogLine]:
        for line in ():
            yield line

    async def usage(self) -> Usage:
        return Usage(nodes=(), replicas=())

    async def forget(self, job_id: JobId) -> None:
        self._order("forget", job_id)


_conforms: type[Engine] = ScriptedEngine
