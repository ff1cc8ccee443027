"""A whole Gangline on the real cluster: controller, engine and store, that can be killed and started again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gangline.compose import SystemClock
from gangline.controller import Controller
from gangline.engines.kubernetes import KubernetesEngine
from gangline.engines.kubernetes.manifests.moves import CacheClaim
from gangline.errors import NotFoundError
from gangline.kube import PODS, KubeClient, Pod
from gangline.lifecycle import Event
from gangline.lifecycle.events import CancelRequested, DeleteRequested, HaltRequested, ScaleRequested
from gangline.model import Job, JobId, JobSpec, Phase, Policy, Resources, RoleName, RoleSpec, Tenant
from gangline.operations.cluster_data import ClusterRecords
from gangline.scheduling import DEFAULT_POLICIES, Policies
from gangline.storage.interface import Store
from gangline.storage.kubernetes import KubernetesStore
from gangline.testing.builders import make_job, make_role
from tests.integration.kubernetes.subject import SMALL
from tools.cluster import BUSYBOX

PATIENCE_SECONDS = 120.0
OBEDIENT = "trap 'exit 143' TERM; sleep 1000 & wait"
"""Runs until it is stopped. A bare sleep is deaf as the first process of a container: each end would take its grace."""
SERVE = f"echo serving; {OBEDIENT}"


def shell(script: str, name: str = "worker", *, resources: Resources = SMALL, **fields: object) -> RoleSpec:
    """A role that runs a shell script."""
    return make_role(name, command=("sh", "-c", script), image=BUSYBOX, resources=resources, **fields)


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something holds of the cluster, which sends no event for it; fails when the time is over."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110  # see above
            await asyncio.sleep(0.05)


class World:
    """One installation in one namespace. Leaving it kills the controller; what runs in the cluster goes on."""

    policies: Policies = DEFAULT_POLICIES

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        store: Store,
        *,
        code_directory: Path | None = None,
        image: str | None = None,
        mover_image: str | None = None,
        cache: CacheClaim | None = None,
    ) -> None:
        self.client = client
        self.image = image
        self.mover_image = mover_image
        self.cache = cache
        self.code_directory = code_directory
        self.namespace = namespace
        self.store = store
        self.clock = SystemClock()
        self._tasks: list[asyncio.Task[None]] = []
        self._start()

    def _start(self) -> None:
        owners = self.store if isinstance(self.store, KubernetesStore) else None
        self.engine = KubernetesEngine(
            self.client,
            clock=self.clock,
            controller=self.namespace,
            namespace=self.namespace,
            owners=owners,
            code_directory=self.code_directory,
            image=self.image,
            mover_image=self.mover_image,
            records=ClusterRecords(self.store, self.clock),
            cache=self.cache,
        )
        self.controller = Controller(store=self.store, engine=self.engine, clock=self.clock, policies=self.policies)
        self._tasks = [asyncio.create_task(self.controller.run(), name="controller")]
        if isinstance(self.store, KubernetesStore):
            self._tasks.append(asyncio.create_task(self.store.follow(self.controller, self.clock), name="follow"))

    async def kill(self) -> None:
        """End the controller at once, as kill -9 would: nothing is finished, nothing is told."""
        for task in self._tasks:
            # Again and again: a task that is just being woken may miss one cancellation.
            while not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=0.1)
        await self.engine.close()

    async def restart(self) -> None:
        """Begin a new life on what the last one left."""
        await self.kill()
        self._start()

    async def submit(self, *roles: RoleSpec, name: str = "mnist", job_id: str = "", **fields: object) -> JobId:
        """Submit a job of these roles."""
        job_id = job_id or f"{self.namespace}-{name}"
        fields.setdefault("policy", Policy(grace_seconds=2.0, backoff_seconds=0.1, max_attempts=3))
        spec = JobSpec(name=name, roles=roles, tenant=Tenant(self.namespace), **fields)
        job = make_job(spec, job_id=job_id, at=self.clock.now())
        await self.store.create(job)
        self.controller.changed(job.id)
        return job.id

    async def ask(self, kind: type[Event], job_id: JobId) -> None:
        """Ask for something as a user would."""
        assert kind in (CancelRequested, DeleteRequested, HaltRequested)
        self.controller.hear(kind(job_id=job_id, at=self.clock.now()))

    async def scale(self, job_id: JobId, **scale: int) -> None:
        """Ask for so many replicas of roles, by name."""
        wanted = {RoleName(role): count for role, count in scale.items()}
        self.controller.hear(ScaleRequested(job_id=job_id, at=self.clock.now(), scale=wanted))

    async def until(self, job_id: JobId, condition: Callable[[Job], bool], seconds: float = PATIENCE_SECONDS) -> Job:
        """Wait until the record looks as the condition says; fails with the job's history."""
        deadline = time.monotonic() + seconds
        while True:
            job = await self.store.get(job_id)
            if condition(job):
                return job
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {seconds:g} s: {[*job.history]} {job.replicas}")
            await asyncio.sleep(0.05)

    async def phase(self, job_id: JobId, phase: Phase, seconds: float = PATIENCE_SECONDS) -> Job:
        """Wait for a phase."""
        return await self.until(job_id, lambda job: job.phase is phase, seconds)

    async def delete(self, job_id: JobId) -> None:
        """Delete a job and wait until there is no record of it."""
        await self.ask(DeleteRequested, job_id)
        await self.gone(job_id)

    async def gone(self, job_id: JobId) -> None:
        """Wait until there is no record of the job."""

        async def is_gone() -> bool:
            try:
                await self.store.get(job_id)
            except NotFoundError:
                return True
            return False

        await eventually(is_gone)

    async def pods(self) -> list[Pod]:
        """What the API server itself says there is."""
        return (await self.client.list(PODS, namespace=self.namespace)).items or []
