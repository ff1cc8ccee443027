"""What a person's own machine needs to speak for them to a cluster: the same REST interface, over its records.

There is no controller here. Jobs are written and read as custom resources with the person's own credentials, so that
the cluster's access rules decide what they may do, and everything lasts as long as the command that asked.
"""

import asyncio
import contextlib
import logging
import secrets
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.auth import local_caller, own_name
from gangline.api.kfp import make_kfp_server
from gangline.api.rest import make_app
from gangline.compose.clock import SystemClock
from gangline.compose.contexts import access_of, client_of, refusal_of
from gangline.compose.sockets import listen
from gangline.engines.kubernetes.observer import KubernetesObserver
from gangline.errors import GanglineError, StorageError
from gangline.kube import ApiError, ForbiddenError, GenericObject, KubeClient, KubeError, Owner, Resource
from gangline.model import CodeLimits, Explanation, Job, JobId, Tenant
from gangline.operations import Caller, OperationContext
from gangline.operations.cluster_data import ClusterRecords
from gangline.storage.kubernetes import KubernetesStore

if TYPE_CHECKING:
    from gangline.compose.dashboard import PrivateDashboard
    from gangline.controller.feed import ChangeFeed
    from gangline.wire import DashboardLink

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0
_REVIEWS = Resource(
    group="authentication.k8s.io",
    plural="selfsubjectreviews",
    kind="SelfSubjectReview",
    type=GenericObject,
    namespaced=False,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ContextService:
    """Answers one user's requests on a private socket, out of one namespace of one cluster."""

    def __init__(
        self,
        context: str,
        *,
        namespace: str,
        socket: Path,
        code_directory: Path,
        code_limits: CodeLimits,
        kfp_ready: Callable[[str], None] | None = None,
        kfp_root: str = "",
    ) -> None:
        """``kfp_ready`` asks for the interface of kfp.Client on a loopback port, and is called with its address;
        ``kfp_root`` is where artefacts of its runs are stored."""
        self._context = context
        self._namespace = namespace
        self._socket = socket
        self._code_directory = code_directory
        self._code_limits = code_limits
        self._kfp_ready = kfp_ready
        self._kfp_root = kfp_root
        self._token = secrets.token_urlsafe(32)
        self._dashboard: PrivateDashboard | None = None

    async def run(self, *, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set; ``ready`` is called once requests are answered."""
        async with client_of(access_of(self._context)) as client:
            session = ClusterSession(
                client, self._namespace, code_directory=self._code_directory, context=self._context
            )
            runner = web.AppRunner(self._application(session), access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            kfp_runner = self._kfp_runner(session)
            try:
                await listen(runner, self._socket)
                if self._kfp_ready is not None:
                    await kfp_runner.setup()
                    await web.TCPSite(kfp_runner, "127.0.0.1", 0).start()
                    self._kfp_ready(f"http://127.0.0.1:{kfp_runner.addresses[0][1]}/{self._token}")
                ready()
                await stop.wait()
            finally:
                await asyncio.gather(runner.cleanup(), kfp_runner.cleanup())
                if self._dashboard is not None:
                    await self._dashboard.close()
                await session.close()

    def _application(self, session: "ClusterSession") -> web.Application:
        def context_for(request: web.Request) -> OperationContext:
            local_caller(request)
            return session.operations()

        async def open_dashboard(request: web.Request, port: int) -> "DashboardLink":
            if self._dashboard is None:
                self._dashboard = self._pages(session)
            return await self._dashboard.link(request, port)

        app = make_app(context_for, code_limits=self._code_limits, open_dashboard=open_dashboard)
        app.middlewares.append(self._translating(session.store))  # within the one that writes errors down
        return app

    def _pages(self, session: "ClusterSession") -> "PrivateDashboard":
        """Make the pages of this person's view of the cluster, which last as long as the command that asked."""
        from gangline.compose.dashboard import PrivateDashboard  # more than most commands wait for

        return PrivateDashboard(
            lambda request: session.operations(),
            clock=SystemClock(),
            owner=own_name,
            home=Tenant(self._namespace),
            behind=(self._translating(session.store),),
        )

    def _kfp_runner(self, session: "ClusterSession") -> web.AppRunner:
        """Return what serves kfp.Client; whoever has the token speaks for this user."""
        app = make_kfp_server(
            lambda request: session.operations(),
            token=self._token,
            tenant=Tenant(self._namespace),
            root=self._kfp_root,
            within=(self._translating(session.store),),
        )
        return web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    def _translating(self, store: "TenantStore") -> Middleware:
        @web.middleware
        async def translate(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                if request.method != "GET":
                    await store.sign()
                return await handler(request)
            except GanglineError as error:
                raise refusal_of(error, context=self._context) from error

        return translate


class ClusterSession:
    """What answers one person's requests about one namespace: its records, what is seen of it, and what changes."""

    def __init__(self, client: KubeClient, namespace: str, *, code_directory: Path, context: str = "") -> None:
        self.store = TenantStore(client, namespace)
        self._code_directory = code_directory
        self._observer = KubernetesObserver(
            client,
            clock=SystemClock(),
            namespace=namespace,
            owners=self.store,
            code_directory=code_directory,
            holding=self.store.holding,
            records=ClusterRecords(self.store, SystemClock()),
            refusal=lambda error: refusal_of(error, context=context),
        )
        self.link, self._whole_link = RecordLink(self.store), RecordLink(self.store.whole)

    def operations(self) -> OperationContext:
        """Return what operations work with; the cluster decides what the person may do."""
        context = OperationContext(
            store=self.store,
            engine=self._observer,
            link=self.link,
            record_link=_Elsewhere(),
            clock=SystemClock(),
            code_directory=self._code_directory,
            caller=Caller(name=self.store.author or own_name()),
            uploader=self._observer,
        )
        return replace(context, whole=replace(context, store=self.store.whole, link=self._whole_link))

    async def close(self) -> None:
        """Let go of what is held here; the client is whoever made it's to close."""
        await asyncio.gather(self.link.close(), self._whole_link.close())
        await self._observer.close()
        await self.store.close()


def serve_kfp(
    context: str, *, namespace: str, root: str, code_limits: CodeLimits, ready: Callable[[str], None]
) -> None:
    """Serve kfp.Client out of a cluster until SIGTERM or SIGINT; ``ready`` is called with the address."""

    async def main(scratch: Path) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        service = ContextService(
            context,
            namespace=namespace,
            socket=scratch / "service.sock",
            code_directory=scratch / "code",
            code_limits=code_limits,
            kfp_ready=ready,
            kfp_root=root,
        )
        await service.run(ready=lambda: None, stop=stop)

    with tempfile.TemporaryDirectory(prefix="gangline-") as scratch:
        asyncio.run(main(Path(scratch)))


class TenantStore(KubernetesStore):
    """The records as one tenant sees them; whoever may see more is shown more where that helps."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        # Events are the controller's to write; most users may not.
        super().__init__(client, namespace=namespace, announces=False)
        self.whole = KubernetesStore(client, announces=False)

    async def sign(self) -> None:
        """Find out by what name the cluster knows who speaks here: journals tell it, and new jobs bear it.

        Nothing is decided by it; a cluster that does not say leaves journals with the name on this machine.
        """
        if self.author is None:
            with contextlib.suppress(ApiError):
                review = await self._client.create(_REVIEWS, {})
                self.author = review.status["userInfo"]["username"]

    async def unfinished(self) -> AsyncIterator[Job]:
        """Return everything that waits or runs in the cluster, or in the namespace for whom may see no more."""
        try:
            jobs = [job async for job in self.whole.unfinished()]
        except StorageError as error:
            if not isinstance(error.__cause__, ForbiddenError):
                raise
            jobs = [job async for job in super().unfinished()]
        for job in jobs:
            yield job

    async def owner_of(self, job_id: JobId) -> Owner | None:
        """Return what everything of a job belongs to, of those that were shown."""
        return self.whole.known_owner(job_id) or await super().owner_of(job_id)

    async def holding(self) -> Collection[Job]:
        """Return the jobs that hold machines."""
        return [job async for job in self.unfinished() if job.holding]


class _Elsewhere:
    """Stands where the driver of records would, which watches them from elsewhere."""

    def changed(self, kind: str) -> None:
        """Nothing to do."""


class RecordLink:
    """Stands where a controller would: the record itself tells what changes and why jobs wait."""

    def __init__(self, store: KubernetesStore) -> None:
        self._store = store
        self._feed: ChangeFeed | None = None
        self._following: asyncio.Task[None] | None = None

    def changed(self, job_id: JobId) -> None:
        """Tell whoever watches here: the store names only what others change, and the controller sees the record."""
        if self._feed is not None:
            self._feed.publish(job_id)

    def explanation(self, job_id: JobId) -> Explanation | None:
        """Return why a job waits, as the leader wrote it into the job's status."""
        return self._store.explanation(job_id)

    def watch(self) -> AsyncIterator[JobId]:
        """Return every job that changes from this call on; the cluster is watched from the first call."""
        if self._feed is None:
            # The controller's package brings the scheduler with it, which a command that lists jobs need not wait for.
            from gangline.controller.feed import ChangeFeed

            self._feed = ChangeFeed()
            self._following = asyncio.create_task(self._follow(self._feed), name="follow records")
        return self._feed.watch()

    async def close(self) -> None:
        """Stop watching."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self, feed: "ChangeFeed") -> None:
        while True:
            try:
                await self._store.follow_changes(feed.publish)
            except (KubeError, StorageError) as error:
                _log.warning("jobs cannot be watched; trying again: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)
