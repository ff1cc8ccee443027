"""The router of one machine: started when there is something to route, started again when it dies, ended after that.

It outlives the service, as gangs do: whoever starts next finds it by its control socket.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp

from gangline.controller.services import Router
from gangline.errors import InvalidInputError
from gangline.model import Backoff
from gangline.model.routing import RouterStatistics, RoutingTable, decode_statistics, decode_table, encode_table

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_BACKOFF = Backoff(0.1, 5.0)
_ANSWER_SECONDS = 5.0
_START_SECONDS, _LOOK_SECONDS = 10.0, 0.05
_HUNG = 5
"""So many times in a row it may leave its control plane without an answer before it is killed."""
_END_SECONDS, _END_LOOKS = 3.0, 60


class RouterProcess:
    """Starts and asks one router. Its table, and the port where it answers, are in a directory of the home."""

    def __init__(self, folder: Path, control: Path) -> None:
        """``control`` is the path of its socket."""
        self._folder = folder
        self._control = control
        self._session: aiohttp.ClientSession | None = None
        self._failures = 0
        self._wanted = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it answers; the same in its next life."""
        port = self._port()
        return f"http://{_HOST}:{port}" if port else ""

    async def known(self) -> RoutingTable:
        """Return what it was told last."""
        try:
            return decode_table(self._table.read_bytes())
        except FileNotFoundError:
            return RoutingTable()
        except InvalidInputError as error:
            _log.error("the routing table cannot be read and is written anew: %s", error)
            return RoutingTable()

    async def tell(self, table: RoutingTable) -> None:
        """Write the table, and see to it that a router follows it."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._table.with_suffix(".draft")
        draft.touch(mode=0o600)
        draft.write_bytes(encode_table(table))
        draft.replace(self._table)
        self._wanted = bool(table.services)
        if not self._wanted:
            await self._end()
        else:
            await self._put_in_force()

    async def _put_in_force(self) -> None:
        """Return when the router follows the table: what is said to be ready then is."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                while await self._ask("POST", "/reload") is None:
                    self._start()
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            _log.warning("the router does not answer; see %s", self._folder / "log")

    async def statistics(self, wait_seconds: float) -> RouterStatistics | None:
        """Ask it; one that does not answer is started again."""
        found = await self._ask("GET", f"/statistics?wait={wait_seconds:g}")
        if found is not None:
            self._failures = 0
            return decode_statistics(found)
        if self._wanted:
            self._failures += 1
            if self._failures % _HUNG == 0 and (pid := self._lives()) is not None:
                _log.error("the router has not answered for a while and is killed: process %d", pid)
                await self._kill(pid, signal.SIGKILL)
            self._start()
        await asyncio.sleep(_BACKOFF.pause(self._failures) if self._failures else wait_seconds)
        return None

    async def close(self) -> None:
        """Let go of it; it goes on."""
        if self._process is not None and self._process.poll() is None:
            self._process.returncode = 0  # it is nobody's child to wait for any more
        if self._session is not None:
            await self._session.close()

    @property
    def _table(self) -> Path:
        return self._folder / "table.json"

    @property
    def _process_file(self) -> Path:
        return self._folder / "process"

    def _port(self) -> int:
        try:
            return int((self._folder / "port").read_text())
        except (OSError, ValueError):
            return 0

    async def _ask(self, method: str, path: str) -> bytes | None:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self._control)))
        limit = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        try:
            async with self._session.request(method, f"http://router{path}", timeout=limit) as answer:
                return await answer.read() if answer.status < 400 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    def _start(self) -> None:
        if self._lives() is not None:
            return  # it is starting, or busy: the table is on disk, and it reads that by itself
        port = self._port()
        if not port or not _is_free(port):
            port = _free_port()
            (self._folder / "port").write_text(str(port))
        command = [sys.executable, "-m", "gangline.router", "--table", str(self._table)]
        command += ["--control", str(self._control), "--listen", f"{_HOST}:{port}"]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )
        self._process_file.write_text(f"{process.pid} {_born(process.pid)}")
        _log.info("the router runs as process %d at port %d", process.pid, port)
        self._process = process

    def _lives(self) -> int | None:
        """Return its process, if that is the one that was started here."""
        if self._process is not None and self._process.poll() is not None:
            return None
        try:
            pid, _, born = self._process_file.read_text().partition(" ")
        except OSError:
            return None
        return int(pid) if born and _born(int(pid)) == born else None

    async def _end(self) -> None:
        """Nothing is left to route: wait until it is gone, so that the next one finds port and socket free."""
        if (pid := self._lives()) is not None and not await self._kill(pid, signal.SIGTERM):
            await self._kill(pid, signal.SIGKILL)
        for each in (self._process_file, self._control):
            each.unlink(missing_ok=True)

    async def _kill(self, pid: int, number: signal.Signals) -> bool:
        """Send it a signal; return whether it is gone then."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        for _ in range(_END_LOOKS):
            if self._lives() is None:
                return True
            await asyncio.sleep(_END_SECONDS / _END_LOOKS)
        return False


def _born(pid: int) -> str:
    """When a process began, in the kernel's own count; empty for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


_conforms: type[Router] = RouterProcess
