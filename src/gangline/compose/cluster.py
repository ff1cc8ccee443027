"""The controller of a Kubernetes cluster: what the Deployment runs, and ``gangline controller run`` anywhere else.

Several may run; one leads. Store, engine and controller are made anew for every term of office, because all that they
remember may have been changed by somebody else meanwhile.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohttp import web

from gangline.compose.clock import SystemClock
from gangline.compose.cluster_router import READABLE_SECRETS, ClusterRouter
from gangline.compose.contexts import refusal_of
from gangline.compose.explaining import tell_why_jobs_wait
from gangline.compose.health import Meter, make_health_app
from gangline.compose.leader_store import LeaderStore
from gangline.compose.metering import MeteredController
from gangline.compose.notifications import make_sender
from gangline.compose.plugins import chosen_policies, usable_kinds
from gangline.controller import RecordDriver
from gangline.controller.notifications.observer import NotificationObserver
from gangline.controller.services import ServiceObserver
from gangline.engines.kubernetes import CacheClaim, KubernetesEngine, Leadership
from gangline.engines.kubernetes.manifests.probes import with_probes
from gangline.engines.kubernetes.manifests.steps import job_on_cluster
from gangline.errors import GanglineError
from gangline.kinds import AnyKind, Owned
from gangline.kinds.inference_service import INFERENCE_SERVICE, parts_of
from gangline.kinds.notification import NOTIFICATION
from gangline.kinds.queue import QUEUE
from gangline.kinds.service import SERVICE
from gangline.kube import (
    CONFIG_MAPS,
    AlreadyExistsError,
    ClusterAccess,
    ForbiddenError,
    KubeClient,
    KubeError,
    NotFoundError,
)
from gangline.model import JobSpec, Tenant
from gangline.model.kinds.service import SERVICE_LABEL, ServiceSpec
from gangline.model.record import Record
from gangline.operations.cluster_data import ClusterRecords
from gangline.operations.objects import decoded_values
from gangline.scheduling import Policies
from gangline.storage.kubernetes import Publisher, resource_of, served_kinds

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
    cache: CacheClaim | None = None
    """The claim that keeps what movers fetched, in namespaces that have one of its name."""
    scheduling: Mapping[str, object] = field(default_factory=dict)
    """The setting of that name: the scheduler's rules."""
    notification_networks: str = ""
    smtp: Mapping[str, object] = field(default_factory=dict)
    """The settings of those names."""

    async def run(self, *, ready: Callable[[int], None] | None = None, stop: asyncio.Event | None = None) -> None:
        """Take part until cancelled or until ``stop`` is set; ``ready`` is called with the port of the health page."""
        clock, meter, stop = SystemClock(), Meter(), stop or asyncio.Event()
        async with KubeClient(self.access) as client:
            await self._check_installed(client)
            election = Leadership(client, identity=self.identity, clock=clock, namespace=self.namespace)
            app = make_health_app(meter=meter, leads=lambda: election.leading, in_contact=lambda: election.in_contact)
            async with _served(app, self.host, self.port) as port:
                govern = partial(_govern, self, client, meter, chosen_policies(self.scheduling))
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
        """Say at once that the custom resources are missing or forbidden, instead of retrying forever."""
        try:
            await client.list(resource_of(QUEUE))
        except KubeError as error:
            raise refusal_of(error, context=self.context) from error


async def _govern(service: ClusterService, client: KubeClient, meter: Meter, policies: Policies) -> None:
    """Drive every job of the cluster, for one term of office."""
    clock = SystemClock()
    store = LeaderStore(client)
    engine = KubernetesEngine(
        client,
        clock=clock,
        owners=store,
        records=ClusterRecords(store, clock),
        image=service.image,
        mover_image=service.image,
        cache=service.cache,
    )
    controller = MeteredController(meter, store=store, engine=engine, clock=clock, policies=policies)
    kinds = await served_kinds(client, usable_kinds())
    await ship(client, kinds)
    publisher = Publisher(client)

    async def adapt(record: Record[Any, Any], spec: JobSpec) -> JobSpec:
        job = job_on_cluster(spec)
        served = spec.labels.get(SERVICE_LABEL)
        found = next((each.spec for each in parts_of(record) if each.name == served), None)
        return with_probes(job, found.health) if isinstance(found, ServiceSpec) else job

    async def publish(kind: AnyKind, record: Record[Any, Any], owned: Owned) -> None:
        owner = store.records(kind).owners.get(record.id)
        if owner is not None and kind.published is not None:
            await publisher.publish(kind, record.id, owner, kind.published(record, owned))

    records = RecordDriver(
        kinds,
        store=store,
        link=controller,
        clock=clock,
        config_map=partial(read_config_map, client),
        adapt=adapt,
        publish=publish,
    )
    router = ClusterRouter(client, namespace=service.namespace)
    await router.prepare()
    services = ServiceObserver(engine=engine, router=router, clock=clock, wake=records.wake)
    records.observers |= dict.fromkeys((SERVICE.name, INFERENCE_SERVICE.name), services)
    sender = make_sender(partial(read_secret, client), networks=service.notification_networks, smtp=service.smtp)
    notifications = NotificationObserver(store=store, sender=sender, clock=clock, wake=records.wake)
    records.observers[NOTIFICATION.name] = notifications
    meter.jobs = store.phases
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(controller.run(), name="controller")
            tasks.create_task(store.follow(controller, clock), name="follow jobs")
            for kind in kinds:
                changed = partial(records.changed, kind.name)
                tasks.create_task(store.records(kind).follow(changed), name=f"follow {kind.plural}")
            tasks.create_task(records.run(), name="records")
            tasks.create_task(services.run(), name="services")
            tasks.create_task(notifications.run(controller.watch()), name="notifications")
            tasks.create_task(tell_why_jobs_wait(store, controller), name="explanations")
            tasks.create_task(engine.place_foreign_pods(controller, store), name="pods of others")
    finally:
        meter.jobs = dict
        await router.close()
        await engine.close()
        await store.close()


async def ship(client: KubeClient, kinds: Iterable[AnyKind]) -> None:
    """Make the objects that clients of other people's kinds expect to be there, unless somebody made them before us."""
    for kind in kinds:
        for spec in kind.always if kind.foreign else ():
            with contextlib.suppress(AlreadyExistsError):
                await client.create(resource_of(kind), kind.format.write(spec))


async def read_config_map(
    client: KubeClient, tenant: Tenant | None, namespace: str, name: str
) -> Mapping[str, str] | None:
    """Read one for a tenant: of its own, or what another has labelled as a template."""
    try:
        found = await client.get(CONFIG_MAPS, name, namespace=namespace)
    except NotFoundError:
        return None
    shared = found.metadata.labels.get("katib.kubeflow.org/component") == "trial-templates"
    return found.data if shared or namespace == tenant else None


async def read_secret(client: KubeClient, tenant: Tenant, name: str) -> Mapping[str, str]:
    """Read a Secret that its tenant lets the controller read; raises GanglineError."""
    try:
        return decoded_values({"data": (await client.get(READABLE_SECRETS, name, namespace=tenant)).data})
    except NotFoundError:
        raise GanglineError(f"there is no Secret '{name}'") from None
    except ForbiddenError:
        raise GanglineError(
            f"the controller may not get the Secret '{name}'; a Role of the namespace can say so"
        ) from None


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


def cache_of(claim: str | None, size_gib: int) -> CacheClaim | None:
    """Describe the cache of an installation; None if it names no claim."""
    return CacheClaim(name=claim, most_bytes=size_gib << 30) if claim else None


def serve_cluster(service: ClusterService, *, ready: Callable[[int], None] | None = None) -> None:
    """Run the controller in this process until SIGTERM or SIGINT; another one takes over at once."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await service.run(ready=ready, stop=stop)

    asyncio.run(main())
