"""A whole Gangline on one machine: the local engine, the SQL store, the controller and both interfaces."""

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
from collections.abc import Callable, Iterator

from aiohttp import web

from gangline.api.auth import local_caller, user_name
from gangline.api.kubernetes import make_kubernetes_app
from gangline.api.kubernetes.door import Door, open_door
from gangline.api.rest import make_app
from gangline.compose.clock import SystemClock
from gangline.compose.sockets import keep_listening, listen, private_directory, remove
from gangline.controller import Controller, SweepDriver
from gangline.engines.interface import Engine
from gangline.engines.local.engine import LocalEngine
from gangline.engines.local.ordering import LogLimits
from gangline.errors import ConflictError
from gangline.operations import Caller, Desk
from gangline.scheduling import policies_from
from gangline.settings import Settings
from gangline.storage.interface import Store

_log = logging.getLogger(__name__)


class Service:
    """A whole Gangline in one process: store, local engine, controller, REST interface on a unix socket, and the
    Kubernetes interface on a loopback port.

    Stopping it leaves every running gang alone; the next start finds them again.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def run(self, *, ready: Callable[[], None] | None = None, stop: asyncio.Event | None = None) -> None:
        """Serve until cancelled or until ``stop`` is set; ``ready`` is called once requests are answered."""
        settings = self.settings
        stop = stop or asyncio.Event()
        private_directory(settings.home)
        private_directory(settings.runtime_directory)
        with _only_one(settings):
            store = await open_store(settings)
            try:
                await self._serve(store, make_engine(settings), ready, stop)
            finally:
                await store.close()

    async def _serve(self, store: Store, engine: Engine, ready: Callable[[], None] | None, stop: asyncio.Event) -> None:
        policies = policies_from(self.settings.scheduling)
        controller = Controller(store=store, engine=engine, clock=SystemClock(), policies=policies)
        sweeps = SweepDriver(store=store, link=controller, clock=SystemClock())
        door = Door.read(self.settings.kubernetes_file)
        runners = [
            web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            for app in self._applications(store, engine, controller, sweeps, door)
        ]
        for runner in runners:
            await runner.setup()
        driving = [
            asyncio.create_task(controller.run(), name="controller"),
            asyncio.create_task(sweeps.run(), name="sweeps"),
        ]
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            port = self.settings.kubernetes_port
            door = await open_door(runners[1], door, self.settings.kubernetes_file, wanted_port=port)
            site = await listen(runners[0], self.settings.socket)
            driving.append(asyncio.create_task(keep_listening(site, runners[0], self.settings.socket), name="socket"))
            _log.info("serving on %s and port %d", self.settings.socket, door.port)
            if ready is not None:
                ready()
            done, _ = await asyncio.wait({*driving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*done)
        finally:
            remove(self.settings.socket)
            for task in (*driving, stopping):
                task.cancel()
            await asyncio.gather(*driving, stopping, return_exceptions=True)
            await asyncio.gather(*(runner.cleanup() for runner in runners))
            await close_engine(engine)

    def _applications(
        self, store: Store, engine: Engine, controller: Controller, sweeps: SweepDriver, door: Door
    ) -> tuple[web.Application, web.Application]:
        """The REST application and the Kubernetes one; whoever holds the latter's token is the owner."""
        settings = self.settings
        owner = Caller(name=user_name(os.getuid()))

        def desk_of(caller: Caller) -> Desk:
            return Desk(
                store=store,
                engine=engine,
                link=controller,
                sweep_link=sweeps,
                clock=SystemClock(),
                code_directory=settings.code_directory,
                caller=caller,
                object_directory=settings.object_directory,
            )

        return (
            make_app(lambda request: desk_of(local_caller(request)), code_limits=settings.code_limits),
            make_kubernetes_app(lambda request: desk_of(owner), token=door.token),
        )


async def open_store(settings: Settings) -> Store:
    """Open the store the settings name."""
    from gangline.storage.sql import open_postgres, open_sqlite

    if settings.database:
        return await open_postgres(settings.database)
    return await open_sqlite(settings.database_file)


def make_engine(settings: Settings) -> LocalEngine:
    """Make the local engine as the settings describe this machine."""
    return LocalEngine(
        settings.home,
        clock=SystemClock(),
        nodes=settings.nodes,
        log_limits=LogLimits(file_bytes=settings.log_file_mib * 2**20, files=settings.log_files),
        code_limits=settings.code_limits,
        most_processes=settings.replica_processes,
    )


async def close_engine(engine: Engine) -> None:
    """Let go of what an engine holds in this process; gangs go on."""
    close = getattr(engine, "close", None)
    if close is not None:
        await close()


def serve_forever(settings: Settings, *, ready: Callable[[], None] | None = None) -> None:
    """Run the service in this process, with its log on standard error, until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

    def tell() -> None:
        # Whoever has another runtime directory finds no socket there, but has the same home.
        with contextlib.suppress(OSError):  # the disk is full
            settings.lock_file.write_bytes(b"%d %s" % (os.getpid(), os.fsencode(settings.socket)))
        if ready is not None:
            ready()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await Service(settings).run(ready=tell, stop=stop)

    asyncio.run(main())


@contextlib.contextmanager
def _only_one(settings: Settings) -> Iterator[None]:
    with settings.lock_file.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConflictError(
                f"another service already runs on {settings.home}; stop it first ('gangline server stop', or close() "
                "on the client that embeds it)"
            ) from error
        yield
