"""Keeps the worker processes of a server: starts, watches and replaces them. The sockets stay open meanwhile."""

import asyncio
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from gangline.serve.settings import ServerSettings, to_text
from gangline.serve.worker import BEAT_SECONDS, STUCK

_BACKLOG = 1024
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 30.0
_STEADY_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSettings:
    """How many workers, and when one is given up."""

    workers: int = 1
    silent_seconds: float = 30.0
    """A worker that has said nothing for this long is killed: its model holds the interpreter."""
    memory_bytes: int | None = None
    """A worker that holds more is replaced."""


class Supervisor:
    """Runs until stopped."""

    def __init__(self, settings: ServerSettings, own: SupervisorSettings, listening: socket.socket) -> None:
        self._settings = settings
        self._own = own
        self._listening = listening
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Let the workers answer what they have, and end."""
        self._stop.set()

    async def run(self) -> None:
        """Keep all workers alive until stopped."""
        await asyncio.gather(*(self._keep(number) for number in range(self._own.workers)))

    async def _keep(self, number: int) -> None:
        pause, replacement = _FIRST_PAUSE_SECONDS, False
        while not self._stop.is_set():
            began = time.monotonic()
            code = await self._run_one(load_first=replacement)
            replacement = True
            if self._stop.is_set():
                return
            pause = _FIRST_PAUSE_SECONDS if time.monotonic() - began > _STEADY_SECONDS else pause
            why = "a model did not come back in time" if code == STUCK else f"exit code {code}"
            print(f"worker {number} ended ({why}); starting another", file=sys.stderr, flush=True)  # noqa: T201
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stop.wait()
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _run_one(self, *, load_first: bool) -> int:
        reading, writing = os.pipe()
        shared = self._listening.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gangline.serve.worker",
            str(shared),
            str(writing),
            "load-first" if load_first else "load-meanwhile",
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(shared, writing),
        )
        os.close(writing)
        assert process.stdin is not None
        with suppress(ConnectionError):
            process.stdin.write(to_text(self._settings).encode())
            await process.stdin.drain()
        process.stdin.close()
        watching = asyncio.create_task(self._watch(process, reading))
        try:
            return await process.wait()
        finally:
            watching.cancel()
            os.close(reading)

    async def _watch(self, process: asyncio.subprocess.Process, beat: int) -> None:
        """Kill a worker that has fallen silent or grown too large; stop it when all end."""
        os.set_blocking(beat, False)
        heard: float | None = None  # loading may take as long as it takes
        while not self._stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._stop.wait()
            with suppress(BlockingIOError):
                if os.read(beat, 4096):
                    heard = time.monotonic()
            silent = heard is not None and time.monotonic() - heard > self._own.silent_seconds
            if silent or self._too_large(process.pid):
                process.kill()
                return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(self._settings.drain_seconds + 5)
            process.kill()

    def _too_large(self, pid: int) -> bool:
        if self._own.memory_bytes is None:
            return False
        try:
            with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123  # a kernel file, read often
                pages = int(file.read().split()[1])
        except (OSError, ValueError, IndexError):
            return False
        return pages * os.sysconf("SC_PAGE_SIZE") > self._own.memory_bytes


def listen(host: str, port: int) -> socket.socket:
    """Open the socket that all workers accept from."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    listening.set_inheritable(True)
    return listening


def reserve_port(host: str, port: int) -> socket.socket:
    """Hold a port that several processes will listen on."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind((host, port))
    return held
