"""A client for the tests of programs that use Gangline: the whole of it in memory, with nothing that really runs.

Scheduler, lifecycle, records, verbs and errors are the real ones; only the machines are missing. A replica starts as
soon as its job is placed, and runs until the test ends it or its script says what becomes of it. Time stands still
until it is moved. Everything that follows from a request has happened when the request returns, so that a test neither
sleeps nor polls. Whoever wants commands to really run uses ``gangline.Client.embedded()``.
"""

import asyncio
import math
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeVar

from aiohttp import web

from gangline.api.auth import local_caller
from gangline.api.rest import make_app
from gangline.controller import Controller, RecordDriver
from gangline.errors import ConflictError, UnreachableError
from gangline.kinds import all_kinds
from gangline.lifecycle import Event
from gangline.model import Job, JobId, Node, ReplicaId, Timestamp
from gangline.operations import OperationContext
from gangline.scheduling import DEFAULT_POLICIES, Policies
from gangline.sdk import Client
from gangline.sdk.transports.http import HttpAnswer, HttpTransport
from gangline.sdk.transports.interface import Request, Transport
from gangline.sdk.transports.service_thread import ServiceThread
from gangline.settings import Settings
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import FakeClock, make_node
from gangline.testing.scripted_engine import Outcome, Script, ScriptedEngine, run_until_told

__all__ = ["InMemoryClient", "Outcome", "Script"]

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_TICK_SECONDS = 1e-6


class InMemoryClient(Client):
    """A ``gangline.Client`` whose service is this object: no process, no port, no file but code that is sent.

    ``nodes`` are the machines there are (one of eight cores by default; ``make_node`` makes others), ``script`` says
    how replicas end that nobody ends by hand. A wait without a timeout gives up after ``patience_seconds``: nothing
    happens here by itself.
    """

    def __init__(
        self,
        *,
        nodes: Sequence[Node] | None = None,
        script: Script = run_until_told,
        tenant: str | None = None,
        policies: Policies = DEFAULT_POLICIES,
        patience_seconds: float = 10.0,
    ) -> None:
        def make(place: Path) -> tuple["_World", Path]:
            settings = Settings.load({"HOME": str(place), "GANGLINE_CONFIG": f"{place}/config.yaml"}, home=place)
            self._world = _World(nodes or (make_node(),), script, policies, settings)
            return self._world, place

        self._thread = ServiceThread(make)
        transport = _MemoryTransport(self._world, patience_seconds)
        super().__init__(context="", tenant=tenant, settings=self._world.settings, transport=transport)

    def close(self) -> None:
        """Forget everything."""
        super().close()
        self._thread.close()

    def now(self) -> Timestamp:
        """Return the time it is for jobs."""
        return self._world.clock.now()

    def advance(self, seconds: float) -> None:
        """Let time pass: deadlines, back-offs and times to live come due."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"time cannot pass by {seconds} seconds")

        async def move() -> None:
            self._world.clock.advance(seconds)

        self._world.do(move)

    def report(
        self,
        job: str,
        *,
        metrics: Mapping[str, float | Sequence[float]] | None = None,
        output: Sequence[str] = (),
        errors: Sequence[str] = (),
        replica: ReplicaId | None = None,
    ) -> Job:
        """Let a running replica, the first of the job unless another is named, report numbers and write lines."""
        did = Outcome(metrics=metrics or {}, output=output, errors=errors)
        found, (first, *_) = self._running(job, replica)

        async def say() -> None:
            self._world.engine.report(found.gang_id, first, did)

        self._world.do(say)
        return self.get(found.id)

    def finish(
        self,
        job: str,
        *,
        exit_code: int = 0,
        metrics: Mapping[str, float | Sequence[float]] | None = None,
        output: Sequence[str] = (),
        errors: Sequence[str] = (),
        replica: ReplicaId | None = None,
    ) -> Job:
        """End every running replica of a job, or the one that is named; return the job as that leaves it.

        The first of them reports and writes what is given. Raises ConflictError if there is none to end.
        """
        outcome = Outcome(exit_code=exit_code, metrics=metrics or {}, output=output, errors=errors)
        found, running = self._running(job, replica)

        async def end() -> None:
            for number, each in enumerate(running):
                self._world.engine.end(found.gang_id, each, outcome if number == 0 else Outcome(exit_code=exit_code))

        self._world.do(end)
        return self.get(found.id)

    def _running(self, job: str, replica: ReplicaId | None) -> tuple[Job, tuple[ReplicaId, ...]]:
        found = self.get(job)
        running = self._world.engine.running(found.gang_id)
        wanted = tuple(each for each in running if replica in (None, each))
        if not wanted:
            who = "none of its replicas runs" if replica is None else f"{replica} does not run"
            raise ConflictError(f"job '{job}' is {found.phase} and {who}{self._why(found)}")
        return found, wanted

    def _why(self, job: Job) -> str:
        with suppress(ConflictError):  # it does not wait for machines
            return f": {' '.join(self.explain(job.id).sentences)}"
        return ""


class _TickingClock(FakeClock):
    """Stands still but for a microsecond at every look, so that what is made later is newer."""

    def now(self) -> Timestamp:
        self.advance(_TICK_SECONDS)
        return super().now()


class _World:
    """Store, engine, controller and REST application on one event loop; nobody listens, connections are handed in."""

    def __init__(self, nodes: Sequence[Node], script: Script, policies: Policies, settings: Settings) -> None:
        self.clock = _TickingClock()
        self.engine = ScriptedEngine(nodes, self.clock, script)
        self._store = MemoryStore()
        self._controller = Controller(store=self._store, engine=self.engine, clock=self.clock, policies=policies)
        self._link = _TouchedLink(self._controller)
        self._records = RecordDriver(all_kinds(), store=self._store, link=self._link, clock=self.clock)
        self.settings = settings
        self._settling = asyncio.Lock()

    async def run(self, *, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Answer what is handed in until ``stop`` is set."""
        app = make_app(self._context_of, code_limits=self.settings.code_limits)
        app.middlewares.append(self._settled)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self._loop, self._accept = asyncio.get_running_loop(), runner.server
        await self._controller.recover()
        ready()
        await stop.wait()
        await runner.cleanup()

    def connect(self) -> socket.socket:
        """Return one end of a new connection; called from any thread."""
        near, far = socket.socketpair()
        far.setblocking(False)

        async def accept() -> None:
            await self._loop.connect_accepted_socket(self._accept, far)  # type: ignore[arg-type]  # set by run

        try:
            self._wait_for(accept)
        except UnreachableError:
            near.close()
            far.close()
            raise
        return near

    def do(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something and all that follows from it; called from any thread but the loop's."""

        async def both() -> None:
            await act()
            await self._settle()

        self._wait_for(both)

    def _wait_for(self, act: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await act()

        working = run()
        try:
            return asyncio.run_coroutine_threadsafe(working, self._loop).result()
        except RuntimeError as error:
            working.close()
            raise UnreachableError("this client is closed") from error

    def _context_of(self, request: web.Request) -> OperationContext:
        return OperationContext(
            store=self._store,
            engine=self.engine,
            link=self._controller,
            record_link=self._records,
            clock=self.clock,
            code_directory=self.settings.code_directory,
            caller=local_caller(request),
            object_directory=self.settings.object_directory,
        )

    @web.middleware
    async def _settled(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request that may have changed something when all has happened that follows from it."""
        try:
            return await handler(request)
        finally:
            if request.method not in ("GET", "HEAD"):
                await self._settle()

    async def _settle(self) -> None:
        async with self._settling:
            self._link.touched = True
            while self._link.touched:
                self._link.touched = False
                await self._settle_jobs()
                self._records.look_at_all()
                await self._records.settle()

    async def _settle_jobs(self) -> None:
        while True:
            await self._controller.settle()
            await self._controller.lanes.drain()
            news = self.engine.take_news()
            if not news:
                return
            for event in news:
                self._controller.hear(event)


class _TouchedLink:
    """The controller as whoever drives records sees it; remembers whether it was asked for anything."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.watch, self.reports = controller.watch, controller.reports
        self.touched = False

    def changed(self, job_id: JobId) -> None:
        self.touched = True
        self._controller.changed(job_id)

    def queues_changed(self) -> None:
        self.touched = True
        self._controller.queues_changed()

    def hear(self, event: Event) -> None:
        self.touched = True
        self._controller.hear(event)


class _MemoryTransport(HttpTransport):
    """The SDK's own requests, each over a pair of connected sockets; a stream is given up when patience ends."""

    def __init__(self, world: _World, patience_seconds: float) -> None:
        super().__init__("http://memory")
        self._world = world
        self._patience_seconds = patience_seconds

    def send(self, request: Request) -> HttpAnswer:
        """Send a request; see Transport."""
        if request.deadline is None:
            request = replace(request, deadline=time.monotonic() + self._patience_seconds)
        return super().send(request)

    def _connection(self) -> HTTPConnection:
        return _PairConnection(self._world)


class _PairConnection(HTTPConnection):
    def __init__(self, world: _World) -> None:
        super().__init__("memory")
        self._world = world

    def connect(self) -> None:
        self.sock = self._world.connect()


_conforms: type[Transport] = _MemoryTransport
