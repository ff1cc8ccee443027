"""What the suites of others' pods share: a Gangline that places them, seats that only one test knows, and PodGroups."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from gangline.compose.leader_store import LeaderStore
from gangline.engines.kubernetes import install, is_pod_job
from gangline.kube import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NODES,
    PODS,
    GenericObject,
    KubeClient,
    NotFoundError,
    Pod,
    Resource,
    load_access,
)
from gangline.model import Job
from gangline.scheduling import DEFAULT_POLICIES
from gangline.storage.kubernetes import DEFINITIONS, JOBS
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.world import OBEDIENT, World, eventually
from tools.cluster import BUSYBOX
from tools.cluster.pytest_plugin import ClusterUnderTest

DEPLOYMENTS = Resource(group="apps", plural="deployments", kind="Deployment", type=GenericObject)
BATCH_JOBS = Resource(group="batch", plural="jobs", kind="Job", type=GenericObject)


def group_definition(group: str, version: str, *, status: bool) -> dict[str, Any]:
    """The least that makes a server know a kind of PodGroup, with a subresource for its status or without."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
            # Groups under k8s.io are the project's own; the server wants to see that somebody approved.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}} if status else {},
                }
            ],
        },
    }


class ForeignWorld(World):
    """A whole Gangline that also places pods of others. It makes room at once: no test waits for a minute of grace."""

    policies = replace(DEFAULT_POLICIES, minimum_run_seconds=0.0)

    def _start(self) -> None:
        super()._start()
        assert isinstance(self.store, LeaderStore)
        placing = self.engine.place_foreign_pods(self.controller, self.store)
        self._tasks.append(asyncio.create_task(placing, name="foreign pods"))

    async def restart(self) -> None:
        """Begin a new life on what the last one left in the cluster: its memory is gone."""
        await self.kill()
        await self.store.close()
        self.store = LeaderStore(self.client, namespace=self.namespace)
        self._start()

    @property
    def seat(self) -> str:
        """A resource that nodes have only for this test, so that its room is nobody else's."""
        return f"{self.namespace}.example.com/seat"

    async def offer_seats(self, *counts: int) -> list[str]:
        """Give this many seats to each of the first nodes; returns the nodes."""
        nodes = [node.name for node in await self.engine.nodes() if node.ready and not node.taints][: len(counts)]
        for node, count in zip(nodes, counts, strict=True):
            patch = {"status": {"capacity": {self.seat: str(count)}, "allocatable": {self.seat: str(count)}}}
            await self.client.patch(NODES, node, patch, subresource="status")
        return list(nodes)

    def pod_spec(self, script: str = OBEDIENT, seats: int = 0, **spec: Any) -> dict[str, Any]:
        """The spec of a pod that names our scheduler."""
        amounts = {"cpu": "10m", "memory": "16Mi", **({self.seat: str(seats)} if seats else {})}
        container = {
            "name": "app",
            "image": BUSYBOX,
            "command": ["sh", "-c", script],
            "resources": {"requests": amounts, "limits": {self.seat: str(seats)} if seats else {}},
        }
        return {
            "schedulerName": "gangline",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **spec,
        }

    async def make_pod(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        seats: int = 0,
        script: str = OBEDIENT,
        **spec: Any,
    ) -> None:
        """Make a pod as its owner would."""
        metadata = {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
        body = {"metadata": metadata, "spec": self.pod_spec(script, seats, **spec)}
        await self.client.create(PODS, body, namespace=self.namespace)

    async def bound(self) -> dict[str, str]:
        """Which pods have a node, by name."""
        return {pod.metadata.name: pod.spec.node_name for pod in await self.pods() if pod.spec.node_name}

    async def until_bound(self, count: int) -> dict[str, str]:
        """Wait until this many pods have their node."""
        found: dict[str, str] = {}

        async def enough() -> bool:
            found.clear()
            found.update(await self.bound())
            return len(found) == count

        await eventually(enough)
        return found

    async def until_told(self, pod: str, reason: str, text: str) -> str:
        """Wait until an event of a pod says something."""
        told: list[str] = []

        async def said() -> bool:
            fields = {"involvedObject.name": pod, "reason": reason}
            found = await self.client.list(EVENTS, namespace=self.namespace, fields=fields)
            told[:] = [event.message for event in found.items or ()]
            return any(text in message for message in told)

        try:
            await eventually(said)
        except TimeoutError:
            raise AssertionError(f"{pod} was told {told}") from None
        return next(message for message in told if text in message)

    async def pod_jobs(self) -> list[Job]:
        """The jobs that stand for single pods, which are known to the controller alone."""
        return [job async for job in self.store.unfinished() if is_pod_job(job.id)]

    async def records(self) -> list[GenericObject]:
        """The job objects that stand for pods."""
        return (await self.client.list(JOBS, namespace=self.namespace)).items or []

    async def pod(self, name: str) -> Pod:
        """One pod."""
        return await self.client.get(PODS, name, namespace=self.namespace)

    async def take_seats_back(self) -> None:
        """Leave the nodes as they were."""
        for node in (await self.client.list(NODES)).items or ():
            if self.seat in node.status.capacity:
                patch = {"status": {"capacity": {self.seat: None}, "allocatable": {self.seat: None}}}
                await self.client.patch(NODES, node.metadata.name, patch, subresource="status")


@asynccontextmanager
async def foreign_world(
    cluster: ClusterUnderTest, namespace: str, kind: type[ForeignWorld] = ForeignWorld
) -> AsyncIterator[ForeignWorld]:
    """Open a Gangline that has the namespace to itself and places the pods in it."""
    async with KubeClient(load_access(path=cluster.kubeconfig)) as client:
        await install(client, DEFINITIONS, print)
        world = kind(client, namespace, LeaderStore(client, namespace=namespace))
        try:
            yield world
        finally:
            await world.kill()
            await world.store.close()
            await world.take_seats_back()
            await release_jobs(client, namespace)


async def define(client: KubeClient, definition: dict[str, Any], resource: Resource[GenericObject]) -> None:
    """Make a kind known, and wait until it is served."""
    await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, force=True)

    async def served() -> bool:
        try:
            await client.list(resource)
        except NotFoundError:
            return False
        return True

    await eventually(served)
