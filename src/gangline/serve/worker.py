"""One worker process: loads the models and answers on sockets that it shares with its siblings."""

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from importlib.metadata import version as installed_version
from typing import Any

from aiohttp import web

from gangline.serve import rest
from gangline.serve.agreement import Agreement
from gangline.serve.counters import Counters
from gangline.serve.one_port import FirstBytes
from gangline.serve.repository import Repository
from gangline.serve.request_log import RequestLog
from gangline.serve.settings import ServerSettings, from_text

BEAT_SECONDS = 0.5
STUCK = 75
"""Exit code of a worker that a model's call has not come back to."""


async def run(settings: ServerSettings, listening: socket.socket, beat: int, *, load_first: bool) -> int:
    """Serve until told to stop or stuck; returns the exit code."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    version, counters = installed_version("gangline"), Counters(settings.workers_folder)
    os.register_at_fork(after_in_child=partial(os.close, listening.fileno()))  # a model's children accept nothing
    log = None if settings.log is None else RequestLog(settings.log)
    repository = Repository(settings.models, settings.batch, counters, log, folder=settings.repository)
    agreement = Agreement(repository, settings.workers_folder)
    loading = asyncio.create_task(agreement.begin())
    if load_first:
        await asyncio.wait({loading, stopping := asyncio.create_task(stop.wait())}, return_when="FIRST_COMPLETED")
        stopping.cancel()
    following = asyncio.create_task(_followed(loading, agreement))
    application = rest.build(repository, agreement, counters, version, settings.max_body_bytes)
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=settings.drain_seconds)
    await runner.setup()
    assert runner.server is not None
    rpc = Rpc(settings, repository, agreement, version)
    if settings.grpc_port is not None:
        await rpc.port()
    server = await asyncio.get_running_loop().create_server(
        partial(FirstBytes, runner.server, rpc.port), sock=listening
    )
    await _until_done(stop, repository, counters, beat)
    server.close()
    await rpc.stop()
    await runner.cleanup()
    for task in (loading, following):
        task.cancel()
    counters.save()
    stuck = repository.stuck
    repository.close()
    if log is not None:
        await asyncio.to_thread(log.close)
    return STUCK if stuck else 0


async def _followed(loading: "asyncio.Task[None]", agreement: Agreement) -> None:
    await loading
    await agreement.follow()


class Rpc:
    """gRPC's server: at a port of its own if the settings name one, and behind that of HTTP from the first call on."""

    def __init__(self, settings: ServerSettings, repository: Repository, agreement: Agreement, version: str) -> None:
        self._settings = settings
        self._repository = repository
        self._agreement = agreement
        self._version = version
        self._server: Any = None
        self._port = 0
        self._starting = asyncio.Lock()

    async def port(self) -> int:
        """Return where it listens on this machine; it starts when it is first asked for. Raises ImportError."""
        async with self._starting:
            if self._server is None:
                await self._start()
        return self._port

    async def _start(self) -> None:
        from grpc import aio

        from gangline.serve.rpc.service import InferenceService

        size = self._settings.max_body_bytes
        limits = [("grpc.max_receive_message_length", size), ("grpc.max_send_message_length", -1)]
        server = aio.server(options=[*limits, ("grpc.so_reuseport", 1)])
        server.add_generic_rpc_handlers(
            (InferenceService(self._repository, self._agreement, self._version).handlers(),)
        )
        if self._settings.grpc_port is not None:
            server.add_insecure_port(f"{self._settings.grpc_host}:{self._settings.grpc_port}")
        self._port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Let calls under way end."""
        if self._server is not None:
            await self._server.stop(self._settings.drain_seconds)


async def _until_done(stop: asyncio.Event, repository: Repository, counters: Counters, beat: int) -> None:
    """Say every moment that this process lives; a model that holds the interpreter keeps it from doing so."""
    while not stop.is_set() and not repository.stuck:
        try:
            os.write(beat, b".")
        except OSError:
            return  # nobody watches any more
        counters.save()
        with suppress(TimeoutError):
            async with asyncio.timeout(BEAT_SECONDS):
                await stop.wait()


def main() -> None:
    """Run a worker with what its supervisor handed down."""
    listening, beat, load_first = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "load-first"
    settings = from_text(sys.stdin.read())
    code = asyncio.run(run(settings, socket.socket(fileno=listening), beat, load_first=load_first))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that hangs in a model would keep the process


if __name__ == "__main__":
    main()
