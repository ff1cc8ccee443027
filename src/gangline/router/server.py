"""The router's process: its listening sockets, and the table file that it follows."""

import asyncio
import itertools
import os
import secrets
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from aiohttp import web

from gangline.errors import InvalidInputError
from gangline.model.routing import Certificate, RouterStatistics, RoutingTable, decode_table
from gangline.router.connection import Clients
from gangline.router.control import control_application, metrics_application, remote_application
from gangline.router.services import Services
from gangline.router.wires import Sweep

_LOOK_SECONDS = 0.05
_RETRY_LOOKS = 20
_BACKLOG = 4096
_PROTOCOLS = ("http/1.1", "h2") if find_spec("h2") else ("http/1.1",)
"""In our order: over HTTP/2 only gRPC is spoken, and its clients offer nothing else."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    """What a router is told when it starts."""

    table: Path
    control: Path
    listen: Address
    listen_tls: Address | None = None
    metrics: Address | None = None
    token: Path | None = None
    """A file with what a control plane elsewhere must say to be answered at the address of the metrics."""
    first_table: Path | None = None
    """Where a router without a table of its own, or with an older one, begins."""
    drain_seconds: float = 20.0


@dataclass(slots=True)
class _Tls:
    """The contexts of TLS in force. A connection chooses by the name that its client asks for."""

    default: ssl.SSLContext | None = None
    by_host: dict[str, ssl.SSLContext] = field(default_factory=dict)
    _made: dict[tuple[str, str, float], ssl.SSLContext] = field(default_factory=dict)

    def follow(self, table: RoutingTable) -> dict[str, str]:
        """Read the certificates that a table names, those that changed anew. Raises OSError for that of everybody.

        A service whose own cannot be read has no TLS and harms no other; such problems are returned by service.
        """
        self.default = self.context(table.tls) if table.tls else None
        problems: dict[str, str] = {}
        self.by_host, own = {}, {}
        for service in table.services:
            try:
                context = self.context(service.tls) if service.tls else None
            except OSError as error:
                problems[service.name] = f"certificate: {error}"
                continue
            if context is not None:
                self.by_host |= dict.fromkeys((host.lower() for host in service.hosts), context)
                own[f"{service.name}.localhost".lower()] = context
        self.by_host |= own  # which no host that another service is given may take
        return problems

    def context(self, files: Certificate) -> ssl.SSLContext:
        """Make a context of a certificate, once for each state of its file."""
        key = (files.certificate, files.key, Path(files.certificate).stat().st_mtime)
        if key not in self._made:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.certificate, files.key)
            context.set_alpn_protocols(list(_PROTOCOLS))
            self._made[key] = context
        return self._made[key]

    def listening(self, chosen: Callable[[], ssl.SSLContext | None]) -> ssl.SSLContext:
        """Return the context of a listening socket, which outlives the certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(list(_PROTOCOLS))

        def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
            tagless = (name or "").partition(".")[2]
            found = self.by_host.get(name or "") or self.by_host.get(tagless) or chosen()
            if found is None:
                return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
            connection.context = found
            return None

        context.sni_callback = choose
        return context


class Router:
    """Follows a table until stopped."""

    def __init__(self, settings: RouterSettings) -> None:
        self._settings = settings
        self._services = Services()
        self._sweep = Sweep()
        self._clients = Clients(self._services, self._sweep)
        self._tls = _Tls()
        self._problem = ""
        self._problems: dict[str, str] = {}
        self._closed_ports: dict[str, str] = {}
        self._table = RoutingTable()
        self._seen: tuple[int, ...] = ()
        self._ports: dict[str, tuple[int, bool, asyncio.Server]] = {}
        self._applying = asyncio.Lock()
        self._stop = asyncio.Event()
        self._life = secrets.token_hex(8)

    def stop(self) -> None:
        """Answer what is under way, then end."""
        self._stop.set()

    def statistics(self) -> RouterStatistics:
        """Say what it does and did."""
        now = asyncio.get_running_loop().time()
        revisions = self._services.statistics(now)
        problems = {**self._problems, **self._closed_ports}
        each = "; ".join(f"service {name}: {text}" for name, text in problems.items())
        return RouterStatistics(
            version=self._services.version,
            problem=self._problem or each,
            problems=problems,
            revisions=revisions,
            life=self._life,
        )

    async def run(self, started: Callable[[str], None]) -> None:
        """Serve until stopped. ``started`` is told the address when it answers."""
        settings, loop = self._settings, asyncio.get_running_loop()
        self._begin()
        with suppress(OSError):
            await self._look()
        control = control_application(self.statistics, self._apply, self._services.somebody_waits)
        runners = [web.AppRunner(control, access_log=None)]
        settings.control.unlink(missing_ok=True)
        await runners[0].setup()
        await web.UnixSite(runners[0], str(settings.control)).start()
        settings.control.chmod(0o600)
        if settings.metrics is not None:
            runners.append(web.AppRunner(self._open_application(), access_log=None))
            await runners[1].setup()
            await web.TCPSite(runners[1], *settings.metrics).start()
        servers = [await loop.create_server(self._clients.protocol, *settings.listen, backlog=_BACKLOG)]
        if settings.listen_tls is not None:
            servers.append(await self._listen_tls(settings.listen_tls, lambda: self._tls.default))
        started("{}:{}".format(*servers[0].sockets[0].getsockname()[:2]))
        tasks = [loop.create_task(self._sweep.run()), loop.create_task(self._follow())]
        await self._stop.wait()
        for server in (*servers, *(server for _, _, server in self._ports.values())):
            server.close()
        await self._clients.stop(settings.drain_seconds)
        for task in tasks:
            task.cancel()
        for runner in runners:
            await runner.cleanup()

    async def _listen_tls(
        self, address: Address, chosen: Callable[[], ssl.SSLContext | None], name: str = ""
    ) -> asyncio.Server:
        context = self._tls.listening(chosen)
        protocol = self._clients.protocol
        return await asyncio.get_running_loop().create_server(
            lambda: protocol(name), *address, ssl=context, backlog=_BACKLOG, ssl_handshake_timeout=10
        )

    def _open_application(self) -> web.Application:
        token = self._settings.token
        if token is None:
            return metrics_application(self.statistics)
        waits, replace = self._services.somebody_waits, self._replace
        return remote_application(self.statistics, self._apply, waits, replace, token.read_text().strip())

    # The table.

    def _begin(self) -> None:
        """Take the first table, unless there is a newer one of its own."""
        first = _version(self._settings.first_table)
        if first > _version(self._settings.table):
            assert self._settings.first_table is not None
            self._keep(self._settings.first_table.read_bytes())

    def _keep(self, text: bytes) -> None:
        draft = self._settings.table.with_suffix(".draft")
        draft.write_bytes(text)
        draft.replace(self._settings.table)

    async def _replace(self, text: bytes) -> None:
        """Follow a table that somebody sent. Raises InvalidInputError, OSError."""
        decode_table(text)
        self._keep(text)
        await self._apply()

    async def _follow(self) -> None:
        """Look at the file many times a second: that costs less than a request, and works on every file system."""
        for look in itertools.count():
            await asyncio.sleep(_LOOK_SECONDS)
            with suppress(OSError):
                await self._look()
            if self._closed_ports and look % _RETRY_LOOKS == 0:  # somebody may have given a port free
                async with self._applying:
                    await self._listen_on_ports(self._table)

    async def _look(self) -> None:
        found = os.stat(self._settings.table)  # noqa: PTH116  # pathlib does the same with more calls
        seen = (found.st_mtime_ns, found.st_ino, found.st_size)
        if seen == self._seen:
            return
        self._seen = seen
        with suppress(InvalidInputError):
            await self._apply()

    async def _apply(self) -> None:
        """Put the file's table in force, or keep the one that is and say why. Raises InvalidInputError, OSError."""
        async with self._applying:
            try:
                table = decode_table(self._settings.table.read_bytes())
                problems = self._tls.follow(table)
                self._services.follow(table)
            except (InvalidInputError, OSError, ValueError) as error:
                self._problem = str(error)
                print(f"the table is not in force: {error}", file=sys.stderr, flush=True)  # noqa: T201
                raise InvalidInputError(str(error)) from error
            self._problem, self._problems, self._table = "", problems, table
            await self._listen_on_ports(table)

    async def _listen_on_ports(self, table: RoutingTable) -> None:
        self._closed_ports.clear()
        wanted = {service.name: (service.port, service.tls is not None) for service in table.services if service.port}
        for name, (port, secure, server) in list(self._ports.items()):
            if wanted.get(name) != (port, secure):
                server.close()  # open connections stay
                del self._ports[name]
        for name, (port, secure) in wanted.items():
            if name not in self._ports:
                try:
                    self._ports[name] = (port, secure, await self._listen_on(name, port, secure=secure))
                except OSError as error:
                    self._closed_ports[name] = f"port {port}: {os.strerror(error.errno or 0)}"

    async def _listen_on(self, name: str, port: int, *, secure: bool) -> asyncio.Server:
        address = (self._settings.listen[0], port)
        if secure:
            return await self._listen_tls(address, lambda: self._tls.by_host.get(f"{name}.localhost"), name)
        protocol = self._clients.protocol
        return await asyncio.get_running_loop().create_server(lambda: protocol(name), *address, backlog=_BACKLOG)


def _version(table: Path | None) -> int:
    """Return the version of a table; -1 if there is none that can be read."""
    try:
        return decode_table(table.read_bytes()).version if table is not None else -1
    except (OSError, InvalidInputError):
        return -1
