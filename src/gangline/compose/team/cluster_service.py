"""The service of a team whose jobs run on a cluster: the same port and interfaces, and the cluster says who may what.

It keeps no records and has no rights of its own but to ask the API server about tokens. Every request is carried out
with the token that it brought, so whatever goes wrong in here, nobody reaches more than by kubectl. Any number of
replicas may run. What they do keep is who changed what and answers to repeated requests: in PostgreSQL if there is one,
else in their logs and in memory.
"""

import asyncio
import json
import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.auditing import auditing
from gangline.api.bodies import MOST_STREAM_BYTES
from gangline.api.ffdl import make_ffdl_app
from gangline.api.ffdl.application import PREFIX as FFDL_PREFIX
from gangline.api.ffdl.application import ffdl_identify
from gangline.api.identity import NOT_VALID
from gangline.api.limits import Limiter, Limits, limiting
from gangline.api.measuring import measuring
from gangline.api.openid import read_openid
from gangline.api.operation import CALLER, Handler, authorizing, operation_of, tenant_in
from gangline.api.origins import telling_origin
from gangline.api.request_ids import RequestIdFilter
from gangline.api.rest import make_app
from gangline.api.rest.change_log import CHANGES
from gangline.api.tracing import tracing
from gangline.compose.clock import SystemClock
from gangline.compose.context import ClusterSession
from gangline.compose.contexts import client_of, refusal_of
from gangline.compose.local import open_store
from gangline.compose.sockets import private_directory, remove
from gangline.compose.team.cluster_people import ClusterPeople, Person, digest_of
from gangline.compose.team.cluster_visits import ClusterVisits
from gangline.compose.team.compressing import compress
from gangline.compose.team.connections import KEEP_ALIVE_SECONDS, SilentConnections
from gangline.compose.team.listening import Listening, open_port
from gangline.compose.team.rpc import open_rpc_port
from gangline.errors import GanglineError, InvalidInputError, NotFoundError, UnauthenticatedError
from gangline.kube import ClusterAccess, Credential, FixedCredential, KubeClient
from gangline.model import Clock, Tenant
from gangline.model.team.audit import AuditEntry
from gangline.operations import Caller, OperationContext
from gangline.settings import Settings
from gangline.storage.answers import KeptAnswers
from gangline.storage.audit import AuditLog
from gangline.telemetry import begin_log, numbers_or_none, traces_to
from gangline.web.application import make_pages
from gangline.web.frame import PREFIX
from gangline.web.guards import reading_only
from gangline.wire import LoginWays, plain

_IDLE_SECONDS = 60.0
_TEND_SECONDS = 15.0
_SESSION: web.RequestKey[ClusterSession] = web.RequestKey("cluster session", ClusterSession)
_audit_log = logging.getLogger("gangline.audit")


class LoggedAudit:
    """Writes the audit record into the log of the process, one JSON document a line, for who collects logs."""

    async def append(self, entry: AuditEntry) -> None:
        """Add an entry; see AuditLog."""
        _audit_log.info("%s", json.dumps(plain(entry)))

    async def read(self, tenant: Tenant | None, *, before: int | None, limit: int) -> Sequence[AuditEntry]:
        """Refuse: nobody here can read what was logged."""
        del tenant, before, limit
        raise NotFoundError(
            "audit record", "audit", hint="it is in the log of the service; the setting database keeps it readable"
        )


@dataclass(slots=True)
class _Kept:
    """A session that somebody has used, and may use again."""

    client: KubeClient
    session: ClusterSession
    users: int = 0
    since: float = 0.0


class ClusterSessions:
    """A session for everybody who asks, in each namespace that they ask about, while they go on asking."""

    def __init__(self, access: ClusterAccess, code_directory: Path, clock: Clock) -> None:
        self._access = access
        self._code_directory = code_directory
        self._clock = clock
        self._kept: dict[tuple[str, str], _Kept] = {}

    @asynccontextmanager
    async def entered(self, person: Person, token: str, namespace: str) -> AsyncIterator[ClusterSession]:
        """Lend the session of a person, who is known by the token."""
        key = digest_of(token), namespace
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = self._made(person, token, namespace)
        kept.users += 1
        try:
            yield kept.session
        finally:
            kept.users -= 1
            kept.since = self._clock.now()

    def _made(self, person: Person, token: str, namespace: str) -> _Kept:
        credentials = FixedCredential(Credential(token=token))
        # The certificate or impersonation of the service must not go along with somebody else's token.
        access = replace(self._access, credentials=credentials, namespace=namespace, impersonation=())
        client = client_of(access)
        # Code is known by its digest, which is no secret: everybody has a directory of their own.
        session = ClusterSession(client, namespace, code_directory=self._code_directory / digest_of(person.name))
        session.store.author = person.name
        return _Kept(client, session)

    async def tend(self, app: web.Application) -> None:
        """Let go of what nobody has used for a while, until cancelled."""
        while True:
            await asyncio.sleep(_TEND_SECONDS)
            now = self._clock.now()
            for key, kept in list(self._kept.items()):
                if not kept.users and now - kept.since > _IDLE_SECONDS:
                    del self._kept[key]
                    await self._close(app, kept)

    async def close(self, app: web.Application) -> None:
        """Let go of everything."""
        kept, self._kept = list(self._kept.values()), {}
        await asyncio.gather(*(self._close(app, each) for each in kept))

    async def _close(self, app: web.Application, kept: _Kept) -> None:
        await app[CHANGES].forget(kept.session.link)
        await kept.session.close()
        await kept.client.close()


def make_cluster_app(
    people: ClusterPeople,
    sessions: ClusterSessions,
    clock: Clock,
    settings: Settings,
    *,
    audit: AuditLog,
    answers: KeptAnswers | None = None,
    outside: Sequence[Middleware] = (),
    again_seconds: float = 5.0,
) -> web.Application:
    """Build what the port serves: the REST interface, the pages and FfDL's. The cluster has Kubernetes' own."""

    visits = ClusterVisits(people, clock)

    @web.middleware
    async def with_session(request: web.Request, handler: Handler) -> web.StreamResponse:
        if CALLER not in request or request.app is not request.match_info.apps[-1]:
            return await handler(request)
        token, person = visits.token_of(request), await visits.person(request)
        async with sessions.entered(person, token, tenant_in(request) or person.home) as session:
            request[_SESSION] = session
            try:
                return await handler(request)
            except GanglineError as error:
                raise refusal_of(error, context="") from error

    def context_for(request: web.Request) -> OperationContext:
        if _SESSION not in request:
            raise UnauthenticatedError(NOT_VALID)
        context = request[_SESSION].operations()
        # The cluster is asked with the person's own token, so no tenant is closed to them here.
        caller = request[CALLER] if request.path.startswith(FFDL_PREFIX) else Caller(name=request[CALLER].name)
        return replace(context, caller=caller, audit=audit, answers=answers, prices=settings.prices)

    numbers, openid = numbers_or_none(), read_openid(settings.openid)
    counting = () if numbers is None else (measuring(numbers),)
    around = (*counting, *outside, compress, auditing(audit, clock))
    limits = Limits.of(settings.requests_per_second, settings.requests_at_once)
    behind = (limiting(Limiter(limits), clock), with_session)
    login = LoginWays()
    if openid is not None:
        login = LoginWays(issuer=openid.issuer, client_id=openid.client_id, scopes=openid.scopes)
    app = make_app(
        context_for,
        code_limits=settings.code_limits,
        check=authorizing(visits.by_token_or_cookie, again_seconds=again_seconds),
        login=login,
        around=around,
        behind=(*behind, reading_only, _refuse_tokens),
        open_dashboard=visits.link,
        numbers=numbers,
    )
    pages = make_pages(
        context_for,
        identify=visits.on_pages,
        sessions=visits.sessions,
        home=Tenant("default"),
        recognize=visits.recognize,
        around=around,
        behind=(*behind, _refuse_tokens),
        any_tenant=True,
    )
    app.add_subapp(PREFIX, pages)
    named = authorizing(ffdl_identify(visits.by_token, visits.of_ffdl), again_seconds=again_seconds)
    within = (*around, named, *behind)
    app.add_subapp(
        FFDL_PREFIX,
        make_ffdl_app(context_for, home=Tenant("default"), code_limits=settings.code_limits, within=within),
    )
    app[MOST_STREAM_BYTES] = settings.upload_limit_mib << 20
    return app


@web.middleware
async def _refuse_tokens(request: web.Request, handler: Handler) -> web.StreamResponse:
    operation = operation_of(request)
    if operation is not None and "tokens" in operation.path.split("/"):
        raise InvalidInputError(
            "tokens are the cluster's own", field="path", expected="kubectl create token, or what your cluster has"
        )
    return await handler(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterApi:
    """The service as one process."""

    settings: Settings
    listening: Listening
    access: ClusterAccess

    async def run(self, *, ready: Callable[[], None] | None = None, stop: asyncio.Event | None = None) -> None:
        """Serve until ``stop`` is set; ``ready`` is called once requests are answered."""
        clock, stop, settings = SystemClock(), stop or asyncio.Event(), self.settings
        for directory in (settings.home, settings.runtime_directory):
            private_directory(directory)
        silent, traces = SilentConnections(clock), traces_to(settings.trace_collector)
        store = await open_store(settings) if settings.database else None
        sessions = ClusterSessions(self.access, settings.code_directory, clock)
        async with KubeClient(self.access) as client:
            app = make_cluster_app(
                ClusterPeople(client, clock),
                sessions,
                clock,
                settings,
                audit=LoggedAudit() if store is None else store.audit,
                answers=None if store is None else store.answers,
                outside=(*(() if traces is None else (tracing(traces),)), telling_origin, silent.noting),
            )
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=KEEP_ALIVE_SECONDS)
            await runner.setup()
            rpc_socket = settings.socket.with_name("rpc.sock")
            rpc, tasks = None, list[asyncio.Task[None]]()
            try:
                await open_port(runner, self.listening, self.listening.tls(settings.home))
                rpc = await open_rpc_port(runner, self.listening, settings.home, rpc_socket)
                tasks = [asyncio.create_task(silent.watch(runner)), asyncio.create_task(sessions.tend(app))]
                if ready is not None:
                    ready()
                await stop.wait()
            finally:
                if rpc is not None:
                    await rpc.stop()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await sessions.close(app)
                await runner.cleanup()
                remove(rpc_socket)
                if store is not None:
                    await store.close()
                if traces is not None:
                    await asyncio.to_thread(traces.close)


def serve_cluster_api(api: ClusterApi) -> None:
    """Run the service in this process, with its log on standard error, until SIGTERM or SIGINT."""
    begin_log(api.settings.log_format, RequestIdFilter())

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await api.run(stop=stop)

    asyncio.run(main())


_conforms: type[AuditLog] = LoggedAudit
