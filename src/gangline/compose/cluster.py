"""The controller of a Kubernetes cluster: what the installation's Deployment runs, and ``gangline serve`` anywhere.

Several may run; one leads. Store, engine and controller are made anew for every term of office, because all that they
remember may have been changed by somebody else meanwhile.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from gangline.compose.clock import SystemClock
from gangline.compose.contexts import refusal_of
from gangline.compose.explaining import tell_why_jobs_wait
from gangline.compose.health import Meter, MeteredController, make_health_app
from gangline.compose.leader_store import LeaderStore
from gangline.controller import SweepDriver
from gangline.engines.kubernetes import KubernetesEngine, Leadership
from gangline.errors import GanglineError
from gangline.kube import ClusterAccess, KubeClient, KubeError
from gangline.scheduling import Policies, policies_from
from gangline.storage.kubernetes import QUEUES

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterService:
    """The controller as one process. ``context`` is what to call the cluster when it refuses."""

    access: ClusterAccess
    context: str
    identity: str
    namespace: str
    """Where the lease lies."""
    host: str
    port: int
    image: str | None = None
    """What jobs that name no image run in, and what moves data."""
    scheduling: Mapping[str, object] = field(default_factory=dict)
    """The setting of that name: the scheduler's rules."""

    async def run(self, *, ready: Callable[[int], None] | None = None, stop: asyncio.Event | None = None) -> None:
        """Take part until cancelled or until ``stop`` is set; ``ready`` is called with the port of the health page."""
        clock, meter, stop = SystemClock(), Meter(), stop or asyncio.Event()
        async with KubeClient(self.access) as client:
            await self._check_installed(client)
            election = Leadership(client, identity=self.identity, clock=clock, namespace=self.namespace)
            app = make_health_app(meter=meter, leads=lambda: election.leading, in_contact=lambda: election.in_contact)
            async with _served(app, self.host, self.port) as port:
                govern = partial(_govern, client, meter, self.image, policies_from(self.scheduling))
                leading = asyncio.create_task(election.lead(govern), name="lead")
                stopping = asyncio.create_task(stop.wait(), name="stop")
                if ready is not None:
                    ready(port)
                try:
                    await asyncio.wait({leading, stopping}, return_when=asyncio.FIRST_COMPLETED)
                    if leading.done():
                        self._check_outcome(leading)
                finally:
                    for task in (leading, stopping):
                        task.cancel()
                    await asyncio.gather(leading, stopping, return_exceptions=True)

    def _check_outcome(self, leading: "asyncio.Task[None]") -> None:
        """Raise the one reason why leading came to an end; the others are its consequences."""
        try:
            leading.result()
        except BaseExceptionGroup as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            if isinstance(error, KubeError):
                raise refusal_of(error, context=self.context) from group
            raise error from group

    async def _check_installed(self, client: KubeClient) -> None:
        """Say at once that the custom resources are missing or forbidden, instead of retrying for ever."""
        try:
            await client.list(QUEUES)
        except KubeError as error:
            raise refusal_of(error, context=self.context) from error


async def _govern(client: KubeClient, meter: Meter, image: str | None, policies: Policies) -> None:
    """Drive every job of the cluster, for one term of office."""
    clock = SystemClock()
    store = LeaderStore(client)
    engine = KubernetesEngine(client, clock=clock, owners=store, image=image, mover_image=image)
    controller = MeteredController(meter, store=store, engine=engine, clock=clock, policies=policies)
    sweeps = SweepDriver(store=store, link=controller, clock=clock)
    meter.jobs = store.phases
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(controller.run(), name="controller")
            tasks.create_task(store.follow(controller, clock), name="follow jobs and queues")
            tasks.create_task(store.follow_sweeps(sweeps.changed), name="follow sweeps")
            tasks.create_task(sweeps.run(), name="sweeps")
            tasks.create_task(tell_why_jobs_wait(store, controller), name="explanations")
            tasks.create_task(engine.place_foreign_pods(controller, store), name="pods of others")
    finally:
        meter.jobs = dict
        await engine.close()
        await store.close()


@contextlib.asynccontextmanager
async def _served(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host or None, port).start()
        except OSError as error:
            raise GanglineError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def serve_cluster(service: ClusterService, *, ready: Callable[[int], None] | None = None) -> None:
    """Run the controller in this process until SIGTERM or SIGINT; another one takes over at once."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await service.run(ready=ready, stop=stop)

    asyncio.run(main())
