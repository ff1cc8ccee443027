"""Sends what a gang needs: shared objects first, then its pods, side by side. Every write may be repeated."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.capacity import gpu_resource
from gangline.engines.kubernetes.gangs import GangState
from gangline.engines.kubernetes.manifests import (
    CODE_LIMIT_BYTES,
    Surroundings,
    gang_to_code,
    gang_to_hosts,
    gang_to_network_policy,
    gang_to_pods,
    gang_to_service,
    is_solo,
)
from gangline.engines.kubernetes.names import Part, ReplicaKey
from gangline.engines.kubernetes.pod import Plain
from gangline.engines.kubernetes.refusals import Refusal, refusal_of
from gangline.engines.kubernetes.watch import ClusterView
from gangline.errors import EngineError
from gangline.kube import (
    CONFIG_MAPS,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    AlreadyExistsError,
    ApiError,
    ForbiddenError,
    GenericObject,
    KubeClient,
    NotFoundError,
    OwnerReference,
    Resource,
)
from gangline.kube.objects import AnyObject
from gangline.model import Gang, GangReplica, JobId

NETWORK_POLICIES = Resource(
    group="networking.k8s.io", plural="networkpolicies", kind="NetworkPolicy", type=GenericObject
)
_CODE_LOOKS = 10
_CODE_PAUSE_SECONDS = 0.5


class Owners(Protocol):
    """Knows the object that stands for a job, where the cluster itself is the record."""

    async def owner_of(self, job_id: JobId) -> OwnerReference | None:
        """Return what everything of this job belongs to."""
        ...


class RefusedError(EngineError):
    """The cluster will not have this gang."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(f"{refusal.reason}: {refusal.message}")


class Launcher:
    """Creates what is missing of gangs."""

    def __init__(
        self,
        client: KubeClient,
        view: ClusterView,
        *,
        controller: str,
        namespace: str | None,
        prefix: str,
        image: str | None,
        code_directory: Path | None,
        owners: Owners | None,
        concurrency: int,
    ) -> None:
        self._client = client
        self._view = view
        self._controller = controller
        self._namespace = namespace
        self._prefix = prefix
        self._image = image
        self._code_directory = code_directory
        self._owners = owners
        self._slots = asyncio.Semaphore(concurrency)
        self._solo_ready: set[str] = set()
        self._priority_classes: tuple[tuple[int, str], ...] | None = None

    def namespace_of(self, gang: Gang) -> str:
        """Where a gang's objects live: its tenant's namespace, unless the engine has only one."""
        return self._namespace or f"{self._prefix}{gang.spec.tenant}"

    async def launch(self, state: GangState, gang: Gang, replicas: list[GangReplica]) -> None:
        """Create the pods of these replicas and what they need; raises RefusedError if the cluster will not."""
        gang = self._completed(gang)
        _check(gang)
        try:
            around = await self._surroundings(gang)
            await self._prepare(state, gang, around)
            await self._create_pods(state, gang, replicas, around)
        except ApiError as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            raise RefusedError(refusal) from error

    async def send_code(self, gang: Gang) -> None:
        """Send the code archive of a job that a controller elsewhere will launch."""
        gang = self._completed(gang)
        await self._send_code(gang, await self._surroundings(gang))

    async def remove_shared(self, state: GangState) -> None:
        """Delete the service, the network policy and the hostfile of an attempt that is gone."""
        name = names.job_name(state.name, state.gang_id.job_id)
        await asyncio.gather(
            self._delete(SERVICES, name, state.namespace),
            self._delete(NETWORK_POLICIES, name, state.namespace),
            self._delete(CONFIG_MAPS, f"{name}-hosts", state.namespace),
        )

    async def remove_strays(self, job_id: JobId) -> None:
        """Delete what an earlier life left when it died between the last pod and the rest: only labels find it."""
        labels = names.job_labels(self._controller, job_id)
        kinds: tuple[Resource[Any], ...] = (SERVICES, NETWORK_POLICIES, CONFIG_MAPS)
        for resource in kinds:
            part = Part.HOSTS if resource is CONFIG_MAPS else Part.NETWORK
            found = await self._client.list(resource, namespace=self._namespace, labels={**labels, names.PART: part})
            for item in found.items or ():
                await self._delete(resource, item.metadata.name, item.metadata.namespace)

    async def owner_of(self, job_id: JobId) -> OwnerReference | None:
        """Return the object that stands for a job, where there is one."""
        return await self._owners.owner_of(job_id) if self._owners is not None else None

    def _completed(self, gang: Gang) -> Gang:
        """Fill in the namespace and the image that this installation decides."""
        spec = replace(
            gang.spec, tenant=type(gang.spec.tenant)(self.namespace_of(gang)), image=gang.spec.image or self._image
        )
        return replace(gang, spec=spec)

    async def _surroundings(self, gang: Gang) -> Surroundings:
        nodes = {replica.node for replica in gang.replicas}
        return Surroundings(
            controller=self._controller,
            owner=await self.owner_of(gang.id.job_id),
            gpu_resources={node: gpu_resource(self._view.nodes.get(node)) for node in nodes},
            priority_classes=await self._classes(),
        )

    async def _classes(self) -> tuple[tuple[int, str], ...]:
        """Find the PriorityClasses of the installation; without one, pods have none."""
        if self._priority_classes is None:
            try:
                found = await self._client.list(PRIORITY_CLASSES, labels=f"{names.DOMAIN}/priority")
            except ForbiddenError:
                self._priority_classes = ()
            else:
                pairs = (
                    (item.metadata.labels[f"{names.DOMAIN}/priority"], item.metadata.name) for item in found.items or ()
                )
                self._priority_classes = tuple(sorted((int(value), name) for value, name in pairs))
        return self._priority_classes

    async def _prepare(self, state: GangState, gang: Gang, around: Surroundings) -> None:
        hosts = gang_to_hosts(gang, around)
        if hosts is not None:
            # Written anew with every change of the gang: the kubelet carries it into running pods.
            await self._client.apply(CONFIG_MAPS, hosts, force=True)
        if state.prepared:
            return
        if gang.spec.code:
            await self._send_code(gang, around)
        await asyncio.gather(
            self._create(SERVICES, gang_to_service(gang, around)),
            self._create_policy(gang, around),
        )
        state.prepared = True

    async def _create_policy(self, gang: Gang, around: Surroundings) -> None:
        solo = is_solo(gang.spec)
        if solo and gang.spec.tenant in self._solo_ready:
            return
        await self._create(NETWORK_POLICIES, gang_to_network_policy(gang, around))
        if solo:
            self._solo_ready.add(gang.spec.tenant)

    async def _send_code(self, gang: Gang, around: Surroundings) -> None:
        digest = (gang.spec.code or "").removeprefix("sha256:")
        file = self._code_directory / f"{digest}.tar.gz" if self._code_directory is not None else None
        if file is None or not await asyncio.to_thread(file.is_file):
            await self._find_code(gang)
            return
        archive = await asyncio.to_thread(file.read_bytes)
        if len(archive) > CODE_LIMIT_BYTES:
            message = (
                f"the code archive has {len(archive) // 1024} KiB; {CODE_LIMIT_BYTES // 1024} KiB fit into a cluster;"
                " leave data out with .ganglineignore, or put the code into the image"
            )
            raise RefusedError(Refusal(reason="CodeTooLarge", message=message, permanent=True))
        await self._create(CONFIG_MAPS, gang_to_code(gang, archive, around))

    async def _find_code(self, gang: Gang) -> None:
        """Wait for the archive that whoever submitted the job is sending, before pods wait for it in vain."""
        name = f"{names.job_name(gang.spec.name, gang.id.job_id)}-code"
        for _ in range(_CODE_LOOKS):
            try:
                await self._client.get(CONFIG_MAPS, name, namespace=gang.spec.tenant)
                return
            except NotFoundError:
                await asyncio.sleep(_CODE_PAUSE_SECONDS)
        message = f"the code archive {gang.spec.code} is neither here nor in the cluster; submit the job again"
        raise RefusedError(Refusal(reason="CodeMissing", message=message, permanent=True))

    async def _create_pods(
        self, state: GangState, gang: Gang, replicas: Sequence[GangReplica], around: Surroundings
    ) -> None:
        waiting = zip(replicas, gang_to_pods(gang, replicas, around), strict=True)
        refused = asyncio.Event()

        async def create_next() -> None:
            async with self._slots:
                if refused.is_set():
                    return  # the gang is lost already; more pods would only hold machines
                try:
                    replica, pod = next(waiting)
                    await self._create(PODS, pod)
                except ApiError:
                    refused.set()
                    raise
            state.created.add(ReplicaKey(gang.id, replica.id, replica.incarnation))

        outcomes = await asyncio.gather(*(create_next() for _ in replicas), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _create(self, resource: Resource[AnyObject], body: Plain | None) -> None:
        if body is None:
            return
        try:
            await self._client.create(resource, body)
        except AlreadyExistsError:
            return  # an earlier life of the controller, or an earlier try, got this far

    async def _delete(self, resource: Resource[AnyObject], name: str, namespace: str) -> None:
        try:
            await self._client.delete(resource, name, namespace=namespace)
        except NotFoundError:
            return


def _check(gang: Gang) -> None:
    """Refuse what a cluster cannot do before anything is created."""
    spec = gang.spec
    for role in spec.roles:
        if not (role.image or spec.image or role.pod_template_json):
            message = f"role '{role.name}' names no image, and a cluster runs nothing else"
            raise RefusedError(Refusal(reason="ImageMissing", message=message, permanent=True))
    if spec.inputs or spec.outputs:
        message = "this engine moves no data yet: mount a volume (label gangline.dev/volume) or read it in the program"
        raise RefusedError(Refusal(reason="DataMovesUnsupported", message=message, permanent=True))
