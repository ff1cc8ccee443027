"""Creates the pods and services of Kubeflow jobs, whose names repeat: tells what is ours from what must go first.

The name of a pod that is taken may be this very replica's (an earlier life created it), an earlier attempt's (it is
still going), upstream's operator's (it is taken over, or makes room), or a stranger's (the gang is refused). That of a
service or ConfigMap may be this job's, that of a job of the same name which has just been deleted, or a stranger's.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from gangline.dialects.kubeflow import JOB_NAME_LABEL, OPERATOR_LABEL, Kind
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.launching.gang_state import GangState
from gangline.engines.kubernetes.launching.launch_order import lasting_addresses
from gangline.engines.kubernetes.manifests.collector import with_collector
from gangline.engines.kubernetes.manifests.kubeflow_pods import (
    KubeflowGang,
    kubeflow_network_policy,
    kubeflow_pods,
    kubeflow_secret,
    kubeflow_services,
    our_annotations,
)
from gangline.engines.kubernetes.manifests.mpi import kubeflow as kubeflow_mpi
from gangline.engines.kubernetes.manifests.pod import Plain, owner_to_plain, replica_labels
from gangline.engines.kubernetes.names import ReplicaKey, replica_of
from gangline.engines.kubernetes.refusals import RefusedError, name_taken
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.kube import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    AlreadyExistsError,
    ApiError,
    KubeClient,
    Metadata,
    NotFoundError,
    OwnerReference,
    Pod,
    Resource,
)
from gangline.kube.objects import AnyObject
from gangline.model import Framework, Gang, GangReplica

_PAUSE_SECONDS = 0.2
_PATIENCE_SECONDS = 15.0
"""Beyond the grace period: how long a name may stay taken by a pod that is going."""


class KubeflowLauncher:
    """Creates what is missing of the gangs of Kubeflow jobs. ``slots`` limits the writes under way."""

    def __init__(
        self,
        client: KubeClient,
        view: ClusterView,
        *,
        controller: str,
        slots: asyncio.Semaphore,
        collector_image: str | None = None,
    ) -> None:
        self._client = client
        self._view = view
        self._controller = controller
        self._slots = slots
        self._collector_image = collector_image

    async def launch(
        self, state: GangState, gang: Gang, kind: Kind, replicas: Sequence[GangReplica], owner: OwnerReference | None
    ) -> None:
        """Create the pods of these replicas, each beside its service, all in parallel; raises RefusedError."""
        job = self._job(gang, kind, owner)
        refused = asyncio.Event()
        if kind.framework is Framework.MPI:
            await self._prepare_mpi(state, job, refused)
        elif not state.prepared:
            await self._share(kubeflow_secret(job))
        work: list[Coroutine[Any, Any, None]] = []
        if kind.has_services or not state.prepared:
            work += [self._service(job, body, refused) for body in kubeflow_services(job, replicas)]
        if not state.prepared:
            work.append(self._close_off(job))
        write = kubeflow_mpi.mpi_pods if kind.framework is Framework.MPI else kubeflow_pods
        pods = zip(replicas, (with_collector(pod, self._collector_image) for pod in write(job, replicas)), strict=True)
        work += [self._pod(state, job, replica, pod, refused) for replica, pod in pods]
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        state.prepared = True

    async def adopt(
        self, state: GangState, gang: Gang, kind: Kind, replicas: Sequence[GangReplica], owner: OwnerReference | None
    ) -> None:
        """Make pods ours that another operator started and the record already counts as running."""
        job = self._job(gang, kind, owner)
        for replica in replicas:
            try:
                pod = await self._client.get(PODS, job.name_of(replica.id), namespace=gang.spec.tenant)
            except NotFoundError:
                continue  # it is lost, which whoever asked finds out by itself
            if _is_upstreams(job, pod) and pod.spec.node_name == replica.node:
                await self._take_over(job, replica, pod)
                state.created.add(ReplicaKey(gang.id, replica.id, replica.incarnation))

    def _job(self, gang: Gang, kind: Kind, owner: OwnerReference | None) -> KubeflowGang:
        lasting = lasting_addresses(gang, self._view.pods_of(gang.id))
        return KubeflowGang(gang=gang, kind=kind, controller=self._controller, owner=owner, lasting_addresses=lasting)

    async def _prepare_mpi(self, state: GangState, job: KubeflowGang, refused: asyncio.Event) -> None:
        config = kubeflow_mpi.config(job)
        await self._retry(job, CONFIG_MAPS, config, refused, lambda: self._configured(job, config))
        if not state.prepared:
            await self._share(await asyncio.to_thread(kubeflow_mpi.secret, job))

    async def _share(self, secret: Plain | None) -> None:
        if secret is not None:
            with contextlib.suppress(AlreadyExistsError):  # that of an earlier attempt is as good
                await self._client.create(SECRETS, secret)

    async def _configured(self, job: KubeflowGang, body: Plain) -> bool:
        found = await self._find(job, CONFIG_MAPS, body)
        if found is not None and not self._is_jobs(job, found):
            return False
        # Written anew with every change of the gang: the kubelet carries it into running pods.
        await self._client.apply(CONFIG_MAPS, body, force=True)
        return True

    async def _close_off(self, job: KubeflowGang) -> None:
        with contextlib.suppress(AlreadyExistsError):  # that of an earlier attempt is the same
            await self._client.create_unread(NETWORK_POLICIES, kubeflow_network_policy(job))

    async def _service(self, job: KubeflowGang, body: Plain, refused: asyncio.Event) -> None:
        await self._retry(job, SERVICES, body, refused, lambda: self._served(job, body))

    async def _served(self, job: KubeflowGang, body: Plain) -> bool:
        async with self._slots:
            try:
                await self._client.create_unread(SERVICES, body)
                return True
            except AlreadyExistsError:
                found = await self._find(job, SERVICES, body)
                return found is not None and self._is_jobs(job, found)

    def _is_jobs(self, job: KubeflowGang, found: Metadata) -> bool:
        """Whether something is this very job's, and stays."""
        return found.deletion_timestamp is None and self._view.is_jobs(job.gang.id.job_id, found)

    async def _find(self, job: KubeflowGang, resource: Resource[AnyObject], body: Plain) -> Metadata | None:
        """Find what has the name, if anything has; a stranger's is refused, for it would never go away."""
        fields = {"metadata.name": body["metadata"]["name"]}
        listed = await self._client.list(resource, namespace=job.gang.spec.tenant, fields=fields)
        for item in listed.items or ():
            if self._is_jobs(job, item.metadata) or _is_going(item.metadata, self._controller):
                return item.metadata
            raise _taken(resource, body, "somebody else")
        return None

    async def _retry(
        self,
        job: KubeflowGang,
        resource: Resource[AnyObject],
        body: Plain,
        refused: asyncio.Event,
        create: Callable[[], Awaitable[bool]],
    ) -> None:
        """Create something as soon as its name is free; a gang that is lost already creates no more."""
        loop = asyncio.get_running_loop()
        until = loop.time() + job.gang.spec.policy.grace_seconds + _PATIENCE_SECONDS
        while not refused.is_set():
            try:
                if await create():
                    return
                if loop.time() > until:
                    raise _taken(resource, body, "another job, and does not become free")
            except (ApiError, RefusedError):
                refused.set()
                raise
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _pod(
        self, state: GangState, job: KubeflowGang, replica: GangReplica, body: Plain, refused: asyncio.Event
    ) -> None:
        await self._retry(job, PODS, body, refused, lambda: self._created(state, job, replica, body))

    async def _created(self, state: GangState, job: KubeflowGang, replica: GangReplica, body: Plain) -> bool:
        async with self._slots:
            try:
                await self._client.create_unread(PODS, body)
            except AlreadyExistsError:
                if not await self._settle(state, job, replica, body):
                    return False
        state.created.add(ReplicaKey(job.gang.id, replica.id, replica.incarnation))
        return True

    async def _settle(self, state: GangState, job: KubeflowGang, replica: GangReplica, body: Plain) -> bool:
        """Find out whose pod has the name: true if it is, or has become, this replica's."""
        try:
            pod = await self._client.get(PODS, body["metadata"]["name"], namespace=job.gang.spec.tenant)
        except NotFoundError:
            return False
        key = replica_of(pod.metadata.labels, self._controller)
        if key is not None and not self._view.is_jobs(key.gang_id.job_id, pod.metadata):
            key = None
        if key == ReplicaKey(job.gang.id, replica.id, replica.incarnation):
            return True
        if key is not None and key.gang_id.job_id == job.gang.id.job_id:
            await self._make_room(state, key, pod)
            return False
        if key is None and _is_upstreams(job, pod):
            if pod.spec.node_name == replica.node and pod.metadata.deletion_timestamp is None:
                await self._take_over(job, replica, pod)
                return True
            await self._make_room(state, None, pod)
            return False
        if _is_going(pod.metadata, self._controller):
            return False
        raise _taken(PODS, body, "somebody else")

    async def _make_room(self, state: GangState, key: ReplicaKey | None, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is None and key not in state.leaving:
            await self._delete_pod(pod)

    async def _delete_pod(self, pod: Pod) -> None:
        try:
            await self._client.delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
        except NotFoundError:
            return

    async def _take_over(self, job: KubeflowGang, replica: GangReplica, pod: Pod) -> None:
        containers = [{"name": container.name} for container in pod.spec.containers]
        metadata: Plain = {
            "resourceVersion": pod.metadata.resource_version,
            "labels": replica_labels(job.gang, replica, self._controller),
            "annotations": our_annotations(job, containers),
        }
        if job.owner is not None and not pod.metadata.owner_references:
            metadata["ownerReferences"] = [owner_to_plain(job.owner)]
        await self._client.patch(PODS, pod.metadata.name, {"metadata": metadata}, namespace=pod.metadata.namespace)


def _is_going(found: Metadata, controller: str) -> bool:
    """Whether something is about to go: it is being deleted, or it is another job's, which may have been deleted."""
    labels = found.labels
    return found.deletion_timestamp is not None or (
        labels.get(names.CONTROLLER) == controller and names.JOB_ID in labels
    )


def _is_upstreams(job: KubeflowGang, pod: Pod) -> bool:
    """Whether upstream's operator made a pod for this very job, or for one that left it behind without an owner."""
    labels, owners = pod.metadata.labels, pod.metadata.owner_references
    ours = labels.get(JOB_NAME_LABEL) == job.gang.spec.name and labels.get(OPERATOR_LABEL) == job.kind.controller
    owned = not owners or (job.owner is not None and any(owner.uid == job.owner.uid for owner in owners))
    return ours and owned and names.JOB_ID not in labels


def _taken(resource: Resource[AnyObject], body: Plain, whose: str) -> RefusedError:
    return RefusedError(name_taken(resource.kind, body["metadata"]["name"], whose))
