"""A whole Gangline on one machine: the local engine, the SQL store, the controller and both interfaces."""

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.auditing import auditing
from gangline.api.auth import known_as, local_caller, local_identity, user_name
from gangline.api.kubernetes import make_kubernetes_app
from gangline.api.kubernetes.endpoint import Endpoint, open_endpoint
from gangline.api.limits import Limits
from gangline.api.measuring import measuring
from gangline.api.openid import read_openid
from gangline.api.operation import authorizing
from gangline.api.origins import telling_origin
from gangline.api.request_ids import RequestIdFilter
from gangline.api.rest import make_app
from gangline.api.tracing import tracing
from gangline.compose.clock import SystemClock
from gangline.compose.dashboard import PrivateDashboard
from gangline.compose.leading import Leading
from gangline.compose.metering import MeteredEngine
from gangline.compose.plugins import chosen_policies
from gangline.compose.sockets import keep_listening, listen, private_directory, remove
from gangline.compose.team.connections import KEEP_ALIVE_SECONDS, SilentConnections
from gangline.compose.team.listening import Listening, open_port
from gangline.compose.team.rpc import open_rpc_port
from gangline.compose.team.service import make_team_app
from gangline.compose.workspaces import WorkspaceKeeper
from gangline.engines.interface import Engine
from gangline.engines.local.engine import LocalEngine
from gangline.engines.local.orders.ordering import LogLimits
from gangline.engines.local.system_users import SystemUsers
from gangline.errors import ConflictError, InvalidInputError
from gangline.model import Tenant
from gangline.operations import Caller, ControllerLink, OperationContext, RecordLink
from gangline.operations.models import RecordedModels
from gangline.operations.stores import RecordedStores
from gangline.settings import Settings, told
from gangline.storage.interface import Store
from gangline.storage.sql.thread_pool import ThreadPool
from gangline.telemetry import begin_log, numbers_or_none, traces_to
from gangline.web.gateway import Gateway

if TYPE_CHECKING:
    from gangline.compose.team.replicas import Replicas
    from gangline.storage.sql.store import SqlStore

_log = logging.getLogger(__name__)


class Service:
    """A whole Gangline in one process: store, local engine, controller, REST interface on a unix socket, and the
    Kubernetes interface on a loopback port.

    Stopping it leaves every running gang alone; the next start finds them again.
    """

    def __init__(self, settings: Settings, listening: Listening | None = None) -> None:
        self.settings = settings
        self._listening = listening
        self._dashboard: PrivateDashboard
        self._silent = SilentConnections(SystemClock())
        self._users: SystemUsers | None = None
        self._numbers = numbers_or_none()
        self._traces = traces_to(settings.trace_collector)
        self._keeper: WorkspaceKeeper
        self._endpoint: Endpoint

    @property
    def _rpc_socket(self) -> Path:
        """Where calls of gRPC reach the team's application."""
        return self.settings.socket.with_name("rpc.sock")

    async def run(self, *, ready: Callable[[], None] | None = None, stop: asyncio.Event | None = None) -> None:
        """Serve until cancelled or until ``stop`` is set; ``ready`` is called once requests are answered."""
        settings = self.settings
        stop = stop or asyncio.Event()
        asyncio.get_running_loop().set_default_executor(ThreadPool(min(32, (os.cpu_count() or 1) + 4), "gangline"))
        private_directory(settings.home)
        private_directory(settings.runtime_directory)
        if self._replica and not settings.database:
            raise InvalidInputError("replicas share a PostgreSQL", field="--replica", expected="the setting database")
        with _only_one(settings, alone=not self._replica):
            self._users = None if self._listening is None else self._listening.users(settings)
            if self._users is not None:
                self._users.open()
            self._keeper = WorkspaceKeeper(settings, SystemClock(), shared_user=self._users is None)
            store = await open_store(settings)
            store.observe(self._note_store)
            try:
                await (self._serve_among_others if self._replica else self._serve)(store, ready, stop)
            finally:
                await store.close()
                if self._traces is not None:
                    await asyncio.to_thread(self._traces.close)

    def _note_store(self, operation: str, took: float) -> None:
        if self._numbers is not None:
            self._numbers.note_store(operation, took)
        if self._traces is not None:
            self._traces.note_store(operation, took)

    async def _serve(self, store: "SqlStore", ready: Callable[[], None] | None, stop: asyncio.Event) -> None:
        """Lead and answer, alone."""
        engine = make_engine(self.settings, store, self._users)
        leading = self._leading(store, engine)
        try:
            driving = await leading.begin()
            await self._answer(
                self._applications(store, engine, leading.controller, leading.records), driving, ready, stop
            )
        finally:
            await leading.close()
            await close_engine(engine)

    def _leading(self, store: "SqlStore", engine: Engine) -> Leading:
        private = self._listening is None
        return Leading(self.settings, store, engine, self._keeper, self._numbers, private=private)

    async def _serve_among_others(
        self, store: "SqlStore", ready: Callable[[], None] | None, stop: asyncio.Event
    ) -> None:
        """Answer always, and lead while nobody else does."""
        from gangline.compose.team.replicas import Replicas

        replicas = Replicas(self.settings.database)
        reading = make_engine(self.settings, store, self._users)

        async def term() -> None:
            await self._lead(store, replicas)

        try:
            driving = [
                asyncio.create_task(replicas.listen(), name="listening"),
                asyncio.create_task(replicas.speak(), name="speaking"),
                asyncio.create_task(replicas.lead(term), name="leading"),
            ]
            await self._answer(
                self._applications(store, reading, replicas.jobs, replicas.records), driving, ready, stop
            )
        finally:
            await close_engine(reading)

    async def _lead(self, store: "SqlStore", replicas: "Replicas") -> None:
        """Lead until cancelled."""
        engine = make_engine(self.settings, store, self._users)
        leading = self._leading(store, engine)
        driving: list[asyncio.Task[None]] = []
        try:
            changes = leading.controller.watch()
            driving = await leading.begin()
            replicas.leading = leading

            async def pass_on() -> None:
                async for job_id in changes:
                    replicas.pass_on(job_id)

            driving.append(asyncio.create_task(pass_on(), name="changes"))
            done, _ = await asyncio.wait(driving, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*done)
        finally:
            replicas.leading = None
            for task in driving:
                task.cancel()
            await asyncio.gather(*driving, return_exceptions=True)
            await leading.close()
            await close_engine(engine)

    async def _answer(
        self,
        applications: tuple[web.Application, ...],
        driving: list["asyncio.Task[None]"],
        ready: Callable[[], None] | None,
        stop: asyncio.Event,
    ) -> None:
        """Serve the applications until one of the driving tasks fails or it is time to stop; then end those."""
        runners = [
            web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=KEEP_ALIVE_SECONDS)
            for app in applications
        ]
        stopping = asyncio.create_task(stop.wait(), name="stop")
        rpc = None
        try:
            tls = None if self._listening is None else self._listening.tls(self.settings.home)
            for runner in runners:
                await runner.setup()
            driving += await self._open(runners, tls)
            if self._listening is not None:
                rpc = await open_rpc_port(runners[2], self._listening, self.settings.home, self._rpc_socket)
            if ready is not None:
                ready()
            done, _ = await asyncio.wait({*driving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*done)
        finally:
            remove(self.settings.socket)
            remove(self._rpc_socket)
            if rpc is not None:
                await rpc.stop()
            for task in (*driving, stopping):
                task.cancel()
            await asyncio.gather(*driving, stopping, return_exceptions=True)
            await asyncio.gather(self._dashboard.close(), *(runner.cleanup() for runner in runners))

    async def _open(self, runners: list[web.AppRunner], tls: ssl.SSLContext | None) -> list["asyncio.Task[None]"]:
        """Listen everywhere; return what keeps it so. The Kubernetes port of a home is one, so replicas have none."""
        port = None
        if not self._replica:
            file, wanted = self.settings.kubernetes_file, self.settings.kubernetes_port
            port = (await open_endpoint(runners[1], self._endpoint, file, wanted_port=wanted)).port
        site = await listen(runners[0], self.settings.socket)
        tasks = [asyncio.create_task(keep_listening(site, runners[0], self.settings.socket), name="socket")]
        _log.info("serving on %s%s", self.settings.socket, "" if port is None else f" and port {port}")
        if self._listening is not None:
            await open_port(runners[2], self._listening, tls)
            tasks.append(asyncio.create_task(self._silent.watch(runners[2]), name="silent connections"))
        return tasks

    @property
    def _traced(self) -> tuple[Middleware, ...]:
        return () if self._traces is None else (tracing(self._traces),)

    @property
    def _replica(self) -> bool:
        return self._listening is not None and self._listening.replica

    def _applications(
        self, store: "SqlStore", engine: Engine, link: ControllerLink, records: RecordLink
    ) -> tuple[web.Application, ...]:
        """The REST application, the Kubernetes one, whose token's holder is the owner, and the team's, if any."""
        # Read once: of a new home it has a new token every time.
        endpoint = self._endpoint = Endpoint.read(self.settings.kubernetes_file)
        settings, users, keeper = self.settings, self._users, self._keeper
        owner, policies = Caller(name=user_name(os.getuid())), chosen_policies(settings.scheduling)
        # What its own user changes is written down where others use the service, too.
        recording = () if self._listening is None else (auditing(store.audit, SystemClock()),)

        def context_of(caller: Caller) -> OperationContext:
            return OperationContext(
                store=store,
                engine=engine,
                link=link,
                record_link=records,
                clock=SystemClock(),
                code_directory=settings.code_directory,
                caller=caller,
                object_directory=settings.object_directory,
                model_directory=settings.model_directory,
                claim_directory=settings.claim_directory,
                audit=store.audit,
                answers=store.answers,
                past_use=store.past_use,
                prices=settings.prices,
                policies=policies,
                rights_of=(lambda _: contextlib.nullcontext()) if users is None else users.rights_of,
            )

        keeper.context = lambda: context_of(owner)

        def gateway(address: str = "") -> Gateway:
            return Gateway(
                context_of,
                clock=SystemClock(),
                token_of=keeper.token_of,
                note_use=keeper.note_use,
                address=address,
            )

        self._dashboard = PrivateDashboard(
            lambda request: context_of(owner),
            clock=SystemClock(),
            owner=lambda: owner.name,
            home=Tenant(settings.tenant),
            gateway=gateway(),
            told=told(settings),
            recording=recording,
        )
        private = (
            make_app(
                lambda request: context_of(local_caller(request)),
                code_limits=settings.code_limits,
                open_dashboard=self._dashboard.link,
                open_workspace=self._dashboard.workspace_link,
                check=authorizing(local_identity) if recording else None,
                around=(*self._traced, *(() if self._numbers is None else (measuring(self._numbers),)), *recording),
                numbers=self._numbers,
            ),
            make_kubernetes_app(
                lambda request: context_of(owner),
                token=endpoint.token,
                around=(known_as(owner.name), *recording) if recording else (),
            ),
        )
        if self._listening is None:
            return private
        only = None if self._listening.trusting or users is not None else Tenant(settings.tenant)
        team = make_team_app(
            store,
            SystemClock(),
            context_of,
            audit=store.audit,
            only=only,
            code_limits=settings.code_limits,
            openid=read_openid(settings.openid),
            limits=Limits.of(settings.requests_per_second, settings.requests_at_once),
            home=Tenant(settings.tenant),
            most_upload_bytes=settings.upload_limit_mib << 20,
            outside=(*self._traced, telling_origin, self._silent.noting),
            numbers=self._numbers,
            gateway=gateway(settings.workspaces_address),
            told=told(settings),
        )
        return (*private, team)


async def open_store(settings: Settings) -> "SqlStore":
    """Open the store the settings name."""
    from gangline.storage.sql import open_postgres, open_sqlite

    if settings.database:
        return await open_postgres(settings.database)
    return await open_sqlite(settings.database_file)


def make_engine(settings: Settings, store: Store, users: SystemUsers | None = None) -> LocalEngine:
    """Make the local engine as the settings describe this machine; jobs run as users of their own, if there are any."""
    return MeteredEngine(
        settings.home,
        clock=SystemClock(),
        nodes=settings.nodes,
        log_limits=LogLimits(file_bytes=settings.log_file_mib * 2**20, files=settings.log_files),
        code_limits=settings.code_limits,
        most_processes=settings.replica_processes,
        stores=RecordedStores(store, settings.object_directory),
        models=RecordedModels(store, SystemClock(), settings.model_directory),
        jobs=store,
        users=users,
    )


async def close_engine(engine: Engine) -> None:
    """Let go of what an engine holds in this process; gangs go on."""
    close = getattr(engine, "close", None)
    if close is not None:
        await close()


def serve_forever(
    settings: Settings, *, ready: Callable[[], None] | None = None, listening: Listening | None = None
) -> None:
    """Run the service in this process, with its log on standard error, until SIGTERM or SIGINT."""
    begin_log(settings.log_format, RequestIdFilter())

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
        await Service(settings, listening).run(ready=tell, stop=stop)

    asyncio.run(main())


@contextlib.contextmanager
def _only_one(settings: Settings, *, alone: bool) -> Iterator[None]:
    """Keep the home for this service alone, or for replicas alone."""
    with settings.lock_file.open("ab") as held:
        try:
            fcntl.flock(held, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConflictError(
                f"another service already runs on {settings.home}; stop it first ('gangline server stop', or close() "
                "on the client that embeds it)"
            ) from error
        yield
