"""Where a replica runs in a cluster, for somebody who wants to look around in it, with their own rights."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gangline.compose.contexts import access_of, client_of, refusal_of
from gangline.engines.kubernetes.manifests.pod import DEFAULT_CONTAINER
from gangline.engines.kubernetes.observer import SHELL, running_pod
from gangline.errors import NotFoundError
from gangline.kube import KubeClient, KubeError, Pod
from gangline.model import Job, ReplicaId
from gangline.model.console import Console
from gangline.storage.kubernetes import KubernetesStore


async def attach(
    context: str, job: Job, replica: ReplicaId, command: Sequence[str], console: Console, *, terminal: bool
) -> int:
    """Run a command, or a shell, in the container in which a replica trains; return its exit code."""
    async with client_of(access_of(context)) as client:
        try:
            pod = await _pod_of(client, job, replica)
            return await client.interact(
                pod.metadata.name,
                command or SHELL,
                console,
                namespace=pod.metadata.namespace,
                container=pod.metadata.annotations.get(DEFAULT_CONTAINER),
                terminal=terminal,
            )
        except KubeError as error:
            raise refusal_of(error, context=context) from error


@asynccontextmanager
async def port_forward(context: str, job: Job, replica: ReplicaId, port: int, *, local_port: int) -> AsyncIterator[int]:
    """Make a port of a replica's pod reachable on this machine while the context is open; yields the local port."""
    async with client_of(access_of(context)) as client:
        try:
            pod = await _pod_of(client, job, replica)
        except KubeError as error:
            raise refusal_of(error, context=context) from error
        metadata = pod.metadata
        async with client.port_forward(
            metadata.name, port, namespace=metadata.namespace, local_port=local_port
        ) as listening:
            yield listening


async def _pod_of(client: KubeClient, job: Job, replica: ReplicaId) -> Pod:
    records = KubernetesStore(client, namespace=job.spec.tenant, announces=False)
    owner = await records.owner_of(job.id)
    pod = None if owner is None else await running_pod(client, owner, job.gang_id, replica)
    if pod is None:
        raise NotFoundError("running replica", str(replica), hint=f"job '{job.name}' has none now")
    return pod
