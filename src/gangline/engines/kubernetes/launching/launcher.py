"""Sends what a gang needs: shared objects first, then its pods, side by side. Every write may be repeated."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from gangline.dialects.kubeflow import GROUP, kind_of, replica_name
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.launching.gang_data import DataFinder, DataRecords
from gangline.engines.kubernetes.launching.gang_state import GangState
from gangline.engines.kubernetes.launching.job_files import Sender
from gangline.engines.kubernetes.launching.kubeflow_launcher import KubeflowLauncher
from gangline.engines.kubernetes.launching.launch_order import lasting_addresses
from gangline.engines.kubernetes.manifests.gang import (
    Surroundings,
    gang_to_hosts,
    gang_to_moves,
    gang_to_network_policy,
    gang_to_pods,
    gang_to_secret,
    gang_to_service,
    gang_to_service_policy,
    image_note,
    is_solo,
    secret_of,
)
from gangline.engines.kubernetes.manifests.moves import CacheClaim, check_data
from gangline.engines.kubernetes.manifests.pod import Plain
from gangline.engines.kubernetes.names import Part, ReplicaKey, is_pod_job
from gangline.engines.kubernetes.node_rules.capacity import gpu_resource
from gangline.engines.kubernetes.refusals import Refusal, RefusedError, name_taken, refusal_of
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.errors import InvalidInputError
from gangline.kube import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    KubeClient,
    Metadata,
    NotFoundError,
    Owner,
    OwnerReference,
    Resource,
)
from gangline.kube.objects import AnyObject
from gangline.model import Clean, Framework, Gang, GangReplica, JobId

_SHARED_SECONDS = 30.0


class Owners(Protocol):
    """Knows the object that stands for a job, where the cluster itself is the record."""

    async def owner_of(self, job_id: JobId) -> Owner | None:
        """Return what everything of this job, or of this sweep, belongs to."""
        ...


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
        mover_image: str | None,
        code_directory: Path | None,
        owners: Owners | None,
        records: DataRecords | None,
        cache: CacheClaim | None,
        concurrency: int,
    ) -> None:
        self._client = client
        self._data = DataFinder(client, records, cache)
        self._view = view
        self._controller = controller
        self._namespace = namespace
        self._prefix = prefix
        self._image = image
        self._mover_image = mover_image
        self._sender = Sender(client, controller=controller, code_directory=code_directory, is_jobs=self._is_jobs)
        self._owners = owners
        self._slots = asyncio.Semaphore(concurrency)
        self._kubeflow = KubeflowLauncher(
            client, view, controller=controller, slots=self._slots, collector_image=mover_image
        )
        self._shared_ready: dict[tuple[str, str], float] = {}
        """Until when the policy of a namespace counts as there: it may be deleted by hand, or with its namespace."""
        self._shared_lock = asyncio.Lock()
        self._noted: set[str] = set()
        """The namespaces in which the image is written down."""
        self._classes_lock = asyncio.Lock()
        self._priority_classes: tuple[tuple[int, str], ...] | None = None

    def namespace_of(self, gang: Gang) -> str:
        """Where a gang's objects live: its tenant's namespace, unless the engine has only one."""
        return self._namespace or f"{self._prefix}{gang.spec.tenant}"

    async def launch(self, state: GangState, gang: Gang, replicas: list[GangReplica]) -> None:
        """Create the pods of these replicas and what they need; raises RefusedError if the cluster will not."""
        gang = self._completed(gang)
        _check(gang)
        try:
            try:
                await self._launch(state, gang, replicas)
            except ForbiddenError as error:
                if not self._named_missing_class(error):
                    raise
                await self._launch(state, gang, replicas)
        except ApiError as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            raise RefusedError(refusal) from error

    async def _launch(self, state: GangState, gang: Gang, replicas: list[GangReplica]) -> None:
        if (kind := kind_of(gang.spec)) is not None:
            await self._kubeflow.launch(state, gang, kind, replicas, await self.reference_to(gang.id.job_id))
            return
        around = await self._prepare(state, gang, await self._surroundings(gang))
        await self._create_pods(state, gang, replicas, around)

    async def adopt(self, state: GangState, gang: Gang) -> None:
        """Make pods ours that another operator started for a Kubeflow job and the record counts as running."""
        kind = kind_of(gang.spec)
        if kind is None:
            return
        known = self._view.pods_of(gang.id).keys() | state.created | state.seen
        keys = ((ReplicaKey(gang.id, replica.id, replica.incarnation), replica) for replica in gang.replicas)
        unaccounted = [replica for key, replica in keys if replica.started and key not in known]
        if unaccounted:
            owner = await self.reference_to(gang.id.job_id)
            await self._kubeflow.adopt(state, self._completed(gang), kind, unaccounted, owner)

    async def send_files(self, gang: Gang) -> None:
        """Send the code and the local inputs of a job that a controller elsewhere will launch."""
        gang = self._completed(gang)
        await self._sender.send(gang, await self._surroundings(gang))

    async def remove_shared(self, state: GangState, clean: Clean) -> None:
        """Delete the service, the network policy and the hostfile of an attempt that is gone.

        What ``clean`` leaves of a Kubeflow job keeps its services, as upstream's do.
        """
        job_id = state.gang_id.job_id
        if state.gang is None:
            await self.remove_strays(state, clean)
            return
        if (kind := kind_of(state.gang.spec)) is not None:
            # Found by their labels: the names repeat, and may be another job's by now.
            kinds = (CONFIG_MAPS,) if kind.framework is Framework.MPI else ()
            await self._remove_labelled(job_id, (SERVICES, NETWORK_POLICIES, *kinds), stays=self._left(state, clean))
            return
        name = names.job_name(state.name, job_id)
        await asyncio.gather(
            self._delete(SERVICES, name, state.namespace),
            self._delete(NETWORK_POLICIES, name, state.namespace),
            self._delete(CONFIG_MAPS, f"{name}-hosts", state.namespace),
        )
        if (secret := secret_of(state.gang.spec, state.gang_id.job_id)) is not None:
            await self._delete(SECRETS, secret, state.namespace)

    async def remove_strays(self, state: GangState, clean: Clean) -> None:
        """Delete what an earlier life left when it died between the last pod and the rest: only labels find it."""
        kinds = (SERVICES, NETWORK_POLICIES, CONFIG_MAPS)
        await self._remove_labelled(state.gang_id.job_id, kinds, stays=self._left(state, clean))

    async def remove_unlisted_services(self, state: GangState) -> None:
        """Delete the services of replicas that a Kubeflow job no longer has."""
        if state.gang is None or (kind := kind_of(state.gang.spec)) is None or not kind.has_services:
            return
        listed = {replica_name(kind, state.gang.spec.name, replica.id) for replica in state.gang.replicas}
        await self._remove_labelled(state.gang_id.job_id, (SERVICES,), stays=lambda found: found.name in listed)

    def _left(self, state: GangState, clean: Clean) -> Callable[[Metadata], bool]:
        """What stays of a Kubeflow job when it has ended: services go with the pods whose names they bear."""
        kept = {pod.metadata.name for key, pod in self._view.pods_of(state.gang_id).items() if key in state.kept}
        all_stays = clean in (Clean.NONE, Clean.LEAVE)

        def stays(found: Metadata) -> bool:
            kubeflows = any(owner.api_version.startswith(f"{GROUP}/") for owner in found.owner_references)
            return kubeflows and (all_stays or found.name in kept)

        return stays

    async def forget(self, job_id: JobId) -> None:
        """Delete the code and the logs of a job; they would go with its object, but only in a while."""
        await self._remove_labelled(job_id, (CONFIG_MAPS,), part=None)

    async def _remove_labelled(
        self,
        job_id: JobId,
        kinds: Sequence[Resource[Any]],
        *,
        part: Part | None = Part.NETWORK,
        stays: Callable[[Metadata], bool] = lambda _: False,
    ) -> None:
        owner = await self.owner_of(job_id)
        if owner is None and self._owners is not None:
            return  # what was its own goes with its object
        labels = names.job_labels(self._controller, job_id)
        for resource in kinds:
            if part is not None:
                labels[names.PART] = Part.HOSTS if resource is CONFIG_MAPS else part
            namespace = owner.namespace if owner is not None else self._namespace
            found = await self._client.list(resource, namespace=namespace, labels=labels)
            ours = (item.metadata for item in found.items or () if self._view.is_jobs(job_id, item.metadata))
            going = [one for one in ours if not stays(one)]
            await asyncio.gather(*(self._delete(resource, one.name, one.namespace, uid=one.uid) for one in going))

    async def admit(self, job_id: JobId) -> None:
        """Let the view know whose pods are this job's replicas."""
        if (owner := await self.owner_of(job_id)) is not None:
            self._view.admit(job_id, owner)

    async def _is_jobs(self, job_id: JobId, metadata: Metadata) -> bool:
        await self.admit(job_id)
        return self._view.is_jobs(job_id, metadata)

    async def owner_of(self, job_id: JobId) -> Owner | None:
        """Return the object that stands for a job, where there is one."""
        if self._owners is None or is_pod_job(job_id):
            return None
        return await self._owners.owner_of(job_id)

    async def reference_to(self, job_id: JobId) -> OwnerReference | None:
        """Return what everything of a job names as its owner."""
        owner = await self.owner_of(job_id)
        return owner.reference if owner is not None else None

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
            owner=await self.reference_to(gang.id.job_id),
            gpu_resources={node: gpu_resource(self._view.nodes.get(node)) for node in nodes},
            priority_classes=await self._classes(),
            mover_image=self._mover_image,
            lasting_addresses=lasting_addresses(gang, self._view.pods_of(gang.id)),
        )

    async def _classes(self) -> tuple[tuple[int, str], ...]:
        """Find the PriorityClasses of the installation; without one, pods have none."""
        async with self._classes_lock:
            if self._priority_classes is None:
                self._priority_classes = await self._read_classes()
        return self._priority_classes

    def _named_missing_class(self, refusal: ForbiddenError) -> bool:
        """Whether pods were given a class that somebody has deleted; those that are left are then found out anew."""
        named = any(name in refusal.message for _, name in self._priority_classes or ())
        if named and "PriorityClass" in refusal.message:
            self._priority_classes = None
            return True
        return False

    async def _read_classes(self) -> tuple[tuple[int, str], ...]:
        label = f"{names.DOMAIN}/priority"
        try:
            found = await self._client.list(PRIORITY_CLASSES, labels=label)
        except ForbiddenError:
            return ()
        labelled = ((item.metadata.labels[label], item.metadata.name) for item in found.items or ())
        return tuple(sorted((int(priority), name) for priority, name in labelled if priority.isdecimal()))

    async def _prepare(self, state: GangState, gang: Gang, around: Surroundings) -> Surroundings:
        """Make what the gang's pods need; return the surroundings with what was found of the job's files."""
        hosts = gang_to_hosts(gang, around)
        if hosts is not None:
            # Written anew with every change of the gang: the kubelet carries it into running pods.
            await self._client.apply(CONFIG_MAPS, hosts, force=True)
        if state.job_archives is None:
            state.job_archives = await self._sender.find(gang, around)
        if state.data is None:
            state.data = await self._data.find(gang.spec)
        around = replace(around, job_archives=state.job_archives, data=state.data)
        if state.prepared:
            return around
        moves = gang_to_moves(gang, around)
        if moves is not None:
            # Applied, not created: an earlier attempt may have been another version's.
            await self._client.apply(CONFIG_MAPS, moves, force=True)
        await asyncio.gather(
            self._note_image(gang, around),
            self._create(gang, SERVICES, gang_to_service(gang, around)),
            self._create_policy(gang, around),
            self._create(gang, SECRETS, gang_to_secret(gang, around)),
        )
        state.prepared = True
        return around

    async def _note_image(self, gang: Gang, around: Surroundings) -> None:
        """Leave word of the image once in each namespace and life; nothing here depends on it."""
        if around.mover_image is None or gang.spec.tenant in self._noted:
            return
        self._noted.add(gang.spec.tenant)
        with contextlib.suppress(ApiError):
            await self._client.apply(CONFIG_MAPS, image_note(gang, around), force=True)

    async def _create_policy(self, gang: Gang, around: Surroundings) -> None:
        policy, shared = gang_to_network_policy(gang, around), [gang_to_service_policy(gang, around)]
        if is_solo(gang.spec):
            shared.append(policy)
        else:
            await self._create(gang, NETWORK_POLICIES, policy)
        async with self._shared_lock:  # many small jobs come at once, and one policy is enough for all
            now = asyncio.get_running_loop().time()
            for each in filter(None, shared):
                key = gang.spec.tenant, each["metadata"]["name"]
                if self._shared_ready.get(key, now) <= now:
                    with contextlib.suppress(AlreadyExistsError):
                        await self._client.create_unread(NETWORK_POLICIES, each)
                    self._shared_ready[key] = now + _SHARED_SECONDS

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
                    await self._create(gang, PODS, pod)
                except (ApiError, RefusedError):
                    refused.set()
                    raise
            state.created.add(ReplicaKey(gang.id, replica.id, replica.incarnation))

        outcomes = await asyncio.gather(*(create_next() for _ in replicas), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _create(self, gang: Gang, resource: Resource[AnyObject], body: Plain | None) -> None:
        if body is None:
            return
        try:
            await self._client.create_unread(resource, body)
        except AlreadyExistsError:
            # An earlier life of the controller, or an earlier try, got this far; or somebody took the name.
            await self._check_own(gang, resource, body["metadata"]["name"])

    async def _check_own(self, gang: Gang, resource: Resource[AnyObject], name: str) -> None:
        """Refuse what somebody else made under a name of the job's; a Secret is never looked at."""
        if resource is SECRETS:
            return
        fields = {"metadata.name": name}
        found = await self._client.list(resource, namespace=gang.spec.tenant, fields=fields)
        if any(not self._view.is_jobs(gang.id.job_id, item.metadata) for item in found.items or ()):
            raise RefusedError(name_taken(resource.kind, name, "somebody else"))

    async def _delete(
        self, resource: Resource[AnyObject], name: str, namespace: str, *, uid: str | None = None
    ) -> None:
        try:
            await self._client.delete(resource, name, namespace=namespace, uid=uid)
        except (NotFoundError, ConflictError):
            return  # it is gone; another of its name is not ours to delete


def _check(gang: Gang) -> None:
    """Refuse what a cluster cannot do before anything is created."""
    spec = gang.spec
    for role in spec.roles:
        if not (role.image or spec.image or role.pod_template_json):
            message = f"role '{role.name}' names no image, and this installation has none for such jobs (--image)"
            raise RefusedError(Refusal(reason="ImageMissing", message=message, permanent=True))
    try:
        check_data(spec)
    except InvalidInputError as error:
        raise RefusedError(Refusal(reason="DataUnreachable", message=str(error), permanent=True)) from error
