"""What a person's own machine asks of a cluster: its nodes, what is used, output; and it sends what a job needs.

It orders nothing: a controller elsewhere does. Everything is read when it is asked for, with the person's own rights,
so a command costs the cluster one or two lists and no watch.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from gangline.engines.interface import Engine, EngineEvent, FaultInjector, LogQuery, RemoteFiles
from gangline.errors import EngineError, GanglineError, PermissionDeniedError
from gangline.errors import NotFoundError as NoReplicaError
from gangline.kube import (
    NODES,
    PODS,
    ConflictError,
    ForbiddenError,
    KubeClient,
    KubeError,
    NotFoundError,
    Owner,
    Pod,
    belongs,
)
from gangline.kube import Node as KubeNode
from gangline.model import Clean, Clock, Gang, GangId, Job, JobId, JobSpec, LogLine, Node, ReplicaId, Tenant, Usage
from gangline.model.console import Console

if TYPE_CHECKING:
    # Each brings much with it that a command which only lists jobs need not wait for.
    from gangline.data.job_folders import FileFact
    from gangline.data.model_files import KeptModel
    from gangline.engines.kubernetes.engine import KubernetesEngine
    from gangline.engines.kubernetes.files.reaching import FileReach
    from gangline.engines.kubernetes.launching.gang_data import DataRecords
    from gangline.engines.kubernetes.launching.launcher import Owners
    from gangline.engines.kubernetes.names import ReplicaKey
    from gangline.engines.kubernetes.watch.cluster_view import ClusterView

HoldingJobs = Callable[[], Awaitable[Collection[Job]]]
"""Finds the jobs that hold machines, of all that the person may see."""

_log = logging.getLogger(__name__)
_CONTROLLER = "gangline"


SHELL = ("sh", "-c", "if command -v bash >/dev/null; then exec bash; else exec sh; fi")
"""The best shell that an image has."""


class KubernetesObserver:
    """An engine that only looks; its orders are refused. ``namespace`` is the person's tenant."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Clock,
        namespace: str,
        owners: "Owners",
        code_directory: Path,
        holding: HoldingJobs,
        records: "DataRecords",
        refusal: Callable[[KubeError], GanglineError],
    ) -> None:
        """Make an observer; ``refusal`` puts what the cluster refuses in the middle of a stream into words."""
        self._client = client
        self._refusal = refusal
        self._namespace = namespace
        self._holding = holding
        self._clock = clock
        self._owners = owners
        self._code_directory = code_directory
        self._records = records
        self._made: KubernetesEngine | None = None

    async def nodes(self) -> Sequence[Node]:
        """Describe every node; raises PermissionDeniedError for somebody who may not read nodes and all pods."""
        try:
            nodes, pods = await self._cluster()
        except ForbiddenError as error:
            raise PermissionDeniedError(
                f"this needs to read the nodes and pods of the whole cluster, and you may not: {error.message}"
            ) from error
        return await self._describe(nodes, pods)

    async def interact(self, job: Job, replica: ReplicaId, console: Console) -> int:
        """Run a shell in the container of a replica; see Terminals."""
        from gangline.engines.kubernetes.manifests.pod import DEFAULT_CONTAINER

        owner = await self._owners.owner_of(job.id)
        pod = None if owner is None else await running_pod(self._client, owner, job.gang_id, replica)
        if pod is None:
            raise NoReplicaError("running replica", str(replica), hint=f"job '{job.name}' has none now")
        place = {"namespace": pod.metadata.namespace, "container": pod.metadata.annotations.get(DEFAULT_CONTAINER)}
        return await self._client.interact(pod.metadata.name, SHELL, console, **place, terminal=True)

    async def usage(self) -> Usage:
        """Measure what is used now: of everything, or of the tenant's own replicas for whom may see no more."""
        try:
            nodes, pods = await self._cluster()
        except ForbiddenError:
            nodes, pods = (), (await self._client.list(PODS, namespace=self._namespace)).items or ()
        from gangline.engines.kubernetes.watch.usage import measure

        view = _seen(nodes, pods, {}, await self._owners_of(await self._holding()))
        ours = [item for gang_id in view.gangs() for item in view.pods_of(gang_id).items()]
        return await measure(self._client, nodes=view.describe_nodes((), {}), pods=ours, namespace=self._namespace)

    async def logs(self, query: LogQuery) -> AsyncIterator[LogLine]:
        """Read output; see Engine."""
        try:
            async for line in self._engine().logs(query):
                yield line
        except KubeError as error:
            raise self._refusal(error) from error

    async def send_code(self, job_id: JobId, spec: JobSpec) -> None:
        """Send what a submitted job needs of this machine into the cluster."""
        await self._engine().send_code(job_id, spec)

    async def send_object(self, tenant: Tenant, document: Mapping[str, object]) -> None:
        """Send an object of a job's file into the tenant's namespace."""
        from gangline.engines.kubernetes.launching.submitted_objects import send_object

        await send_object(self._client, tenant, document)

    async def remove_object(self, tenant: Tenant, kind: str, name: str) -> None:
        """Remove an object that was sent from here."""
        from gangline.engines.kubernetes.launching.submitted_objects import remove_object

        await remove_object(self._client, tenant, kind, name)

    async def list_files(self, job: Job, path: str) -> "Sequence[FileFact]":
        """Return the files of a job; see RemoteFiles."""
        return await self._files().list_files(job, await self._owners.owner_of(job.id), path)

    async def read_files(self, job: Job, path: str) -> AsyncGenerator[bytes]:
        """Return files of a job as a stream; see RemoteFiles."""
        async with aclosing(self._files().read_files(job, await self._owners.owner_of(job.id), path)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def write_files(self, job: Job, path: str, stream: AsyncIterator[bytes]) -> "FileFact":
        """Put files beside those of a job; see RemoteFiles."""
        return await self._files().write_files(job, await self._owners.owner_of(job.id), path, stream)

    def model_files(self, tenant: str, at: str, digest: str) -> AsyncGenerator[bytes]:
        """Return the files of a version; see RemoteFiles."""
        return self._files().model_files(tenant, at, digest)

    async def keep_model(self, tenant: str, stream: AsyncIterator[bytes]) -> "tuple[str, KeptModel]":
        """Keep the files of a version; see RemoteFiles."""
        return await self._files().keep_model(tenant, stream)

    async def forget_models(self, tenant: str, at: str, used: Iterable[str]) -> None:
        """Remove files of models; see RemoteFiles."""
        await self._files().forget_models(tenant, at, used)

    def _files(self) -> "FileReach":
        from gangline.engines.kubernetes.files.reaching import FileReach

        return FileReach(self._client, self._records)

    async def kill(self, gang_id: GangId, replica: ReplicaId) -> bool:
        """Take a running replica's pod away, with no grace; see FaultInjector."""
        owner = await self._owners.owner_of(gang_id.job_id)
        pod = None if owner is None else await running_pod(self._client, owner, gang_id, replica)
        if pod is None:
            return False
        metadata = pod.metadata
        try:
            await self._client.delete(
                PODS, metadata.name, namespace=metadata.namespace, uid=metadata.uid, grace_seconds=0
            )
        except (NotFoundError, ConflictError):
            return False  # it has just ended, or another has its name
        return True

    async def close(self) -> None:
        """Let go of what this process holds."""
        if self._made is not None:
            await self._made.close()

    async def run(self, gang: Gang) -> None:
        """Refuse: see the module."""
        raise EngineError("this machine starts no gangs; the controller of the cluster does")

    async def finish(self, gang: Gang) -> None:
        """Refuse: see the module."""
        raise EngineError("this machine ends no gangs; the controller of the cluster does")

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        """Refuse: see the module."""
        raise EngineError("this machine stops no gangs; the controller of the cluster does")

    async def events(self) -> AsyncIterator[EngineEvent]:
        """Report nothing: nobody here acts on it."""
        nothing: tuple[EngineEvent, ...] = ()
        for event in nothing:
            yield event

    async def forget(self, job_id: JobId) -> None:
        """Refuse: see the module."""
        raise EngineError("this machine forgets no jobs; the controller of the cluster does")

    def _engine(self) -> "KubernetesEngine":
        """Return the engine whose reading and sending this borrows; it is told to run nothing."""
        from gangline.engines.kubernetes.engine import KubernetesEngine

        if self._made is None:
            self._made = KubernetesEngine(
                self._client,
                clock=self._clock,
                namespace=self._namespace,
                owners=self._owners,
                code_directory=self._code_directory,
            )
        return self._made

    async def _describe(self, nodes: Iterable[KubeNode], pods: Iterable[Pod]) -> Sequence[Node]:
        """Describe nodes beside jobs that hold some of them: what is theirs must not count for others as well."""
        jobs = await self._holding()
        view = _seen(nodes, pods, _recorded(jobs), await self._owners_of(jobs))
        known = {job.gang_id for job in jobs}
        return view.describe_nodes([gang_id for gang_id in view.gangs() if gang_id not in known], {})

    async def _owners_of(self, jobs: Iterable[Job]) -> dict[JobId, Owner]:
        found = {job.id: await self._owners.owner_of(job.id) for job in jobs}
        return {job_id: owner for job_id, owner in found.items() if owner is not None}

    async def _cluster(self) -> tuple[Sequence[KubeNode], Sequence[Pod]]:
        nodes, pods = await asyncio.gather(self._client.list(NODES), self._client.list(PODS))
        return nodes.items or (), pods.items or ()


async def running_pod(client: KubeClient, owner: Owner, gang_id: GangId, replica: ReplicaId) -> Pod | None:
    """Find the pod in which a replica of an attempt runs now."""
    from gangline.engines.kubernetes import names

    labels = names.gang_labels(_CONTROLLER, gang_id)
    labels |= {names.PART: names.Part.REPLICA, names.ROLE: replica.role, names.INDEX: str(replica.index)}
    for pod in (await client.list(PODS, namespace=owner.namespace, labels=labels)).items or ():
        running = pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        if running and belongs(pod.metadata, owner):
            return pod
    return None


def _recorded(jobs: Iterable[Job]) -> "dict[tuple[str, str], ReplicaKey]":
    """Which pods of others, by namespace and uid, are replicas of these jobs."""
    from gangline.engines.kubernetes.foreign.records import BadRecordError, members_of
    from gangline.engines.kubernetes.names import ReplicaKey, is_foreign

    found: dict[tuple[str, str], ReplicaKey] = {}
    for job in jobs:
        if not is_foreign(job.spec):
            continue
        try:
            members = members_of(job.spec)
        except BadRecordError as error:
            _log.warning("%s", error)
            continue
        found |= {(job.spec.tenant, pod.uid): ReplicaKey(job.gang_id, replica, 0) for replica, pod in members.items()}
    return found


def _seen(
    nodes: Iterable[KubeNode],
    pods: Iterable[Pod],
    recorded: "Mapping[tuple[str, str], ReplicaKey]",
    owners: "Mapping[JobId, Owner]",
) -> "ClusterView":
    from gangline.engines.kubernetes.watch.cluster_view import ClusterView

    view = ClusterView(controller=_CONTROLLER, changed_pod=_ignore, changed_nodes=_ignore, lost_node=_ignore)
    for node in nodes:
        view.apply_node(node)
    for job_id, owner in owners.items():
        view.admit(job_id, owner)
    for pod in pods:
        key = recorded.get((pod.metadata.namespace, pod.metadata.uid))
        if key is not None:
            view.claim(pod.metadata.uid, key)
        view.apply_pod(pod)
    return view


def _ignore(*_: object) -> None:
    """A view that is looked at once has nobody to call."""


_conforms: type[Engine] = KubernetesObserver
_injects_faults: type[FaultInjector] = KubernetesObserver
_reaches_files: type[RemoteFiles] = KubernetesObserver
