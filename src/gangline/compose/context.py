"""What a person's own machine needs to speak for them to a cluster: the same REST interface, over its records.

There is no controller here. Jobs are written and read as custom resources with the person's own credentials, so that
the cluster's access rules decide what they may do, and everything lasts as long as the command that asked.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from gangline import wire
from gangline.api.auth import local_caller, user_name
from gangline.api.rest import make_app
from gangline.compose.clock import SystemClock
from gangline.compose.contexts import access_of, client_of, refusal_of
from gangline.compose.sockets import listen
from gangline.engines.kubernetes.observer import KubernetesObserver
from gangline.errors import GanglineError, StorageError
from gangline.kube import ApiError, ForbiddenError, GenericObject, KubeClient, KubeError, Owner, Resource
from gangline.model import CodeLimits, Job, JobId, JobPage
from gangline.operations import Caller, Desk, explained
from gangline.storage.interface import JobQuery
from gangline.storage.kubernetes import KubernetesStore

if TYPE_CHECKING:
    from gangline.controller.feed import ChangeFeed
    from gangline.scheduling import Explanation

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
        self, context: str, *, namespace: str, socket: Path, code_directory: Path, code_limits: CodeLimits
    ) -> None:
        self._context = context
        self._namespace = namespace
        self._socket = socket
        self._code_directory = code_directory
        self._code_limits = code_limits

    async def run(self, *, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set; ``ready`` is called once requests are answered."""
        async with client_of(access_of(self._context)) as client:
            store = TenantStore(client, self._namespace)
            observer = KubernetesObserver(
                client,
                clock=SystemClock(),
                namespace=self._namespace,
                owners=store,
                code_directory=self._code_directory,
                holding=store.holding,
                refusal=lambda error: refusal_of(error, context=self._context),
            )
            link = RecordLink(store)
            runner = web.AppRunner(self._application(store, observer, link), access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            try:
                await listen(runner, self._socket)
                ready()
                await stop.wait()
            finally:
                await runner.cleanup()
                await link.close()
                await observer.close()
                await store.close()

    def _application(self, store: "TenantStore", observer: KubernetesObserver, link: "RecordLink") -> web.Application:
        def desk_for(request: web.Request) -> Desk:
            local_caller(request)
            return Desk(
                store=store,
                engine=observer,
                link=link,
                sweep_link=link,
                clock=SystemClock(),
                code_directory=self._code_directory,
                caller=Caller(name=store.author or user_name(os.getuid())),
                courier=observer,
                told=link.told,
            )

        @web.middleware
        async def translate(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                if request.method != "GET":
                    await store.sign()
                return await handler(request)
            except GanglineError as error:
                raise refusal_of(error, context=self._context) from error

        app = make_app(desk_for, code_limits=self._code_limits)
        app.middlewares.append(translate)  # within the one that writes errors down
        return app


class TenantStore(KubernetesStore):
    """The records as one tenant sees them; whoever may see more is shown more where that helps."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        # Events are the controller's to write; most users may not.
        super().__init__(client, namespace=namespace, announces=False)
        self._whole = KubernetesStore(client, announces=False)

    async def list(self, query: JobQuery) -> JobPage:
        """Return one page of jobs; a query that names no tenant means those of the whole cluster."""
        return await (super().list(query) if query.tenant is not None else self._whole.list(query))

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
            jobs = [job async for job in self._whole.unfinished()]
        except StorageError as error:
            if not isinstance(error.__cause__, ForbiddenError):
                raise
            jobs = [job async for job in super().unfinished()]
        for job in jobs:
            yield job

    async def owner_of(self, job_id: JobId) -> Owner | None:
        """Return what everything of a job belongs to, of those that were shown."""
        return self._whole.known_owner(job_id) or await super().owner_of(job_id)

    async def holding(self) -> Collection[Job]:
        """Return the jobs that hold machines."""
        return [job async for job in self.unfinished() if job.holding]


class RecordLink:
    """Stands where a controller would: the record itself tells what changes and why jobs wait."""

    def __init__(self, store: KubernetesStore) -> None:
        self._store = store
        self._feed: ChangeFeed | None = None
        self._following: asyncio.Task[None] | None = None

    def changed(self, job_id: JobId | None = None) -> None:
        """Nothing to do: the controller elsewhere watches the record."""

    def explanation(self, job_id: JobId) -> "Explanation | None":
        """Return nothing: what is known here was told by the controller; see ``told``."""

    def told(self, job_id: JobId) -> wire.Explanation | None:
        """Return why a job waits, as the leader wrote it into the job's status."""
        found = self._store.explanation(job_id)
        return None if found is None else explained(found.facts, found.sentences)

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
