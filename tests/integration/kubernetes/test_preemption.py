"""A training that is preempted goes on from its checkpoint, which lies on a claim, on a real cluster."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes.node_rules.volumes import STORAGE_CLASSES, VOLUMES
from gangline.kube import VOLUME_CLAIMS, Resource
from gangline.model import Phase, PlacementRule
from tests.integration.kubernetes.foreign import ForeignWorld, foreign_world
from tests.integration.kubernetes.subject import SMALL
from tests.integration.kubernetes.world import SERVE, shell
from tools.cluster.pytest_plugin import ClusterUnderTest

HOSTNAME = "kubernetes.io/hostname"
HALFWAY, ALL = 3, 5
TRAIN = f"""
import time
from gangline import runtime

kept = runtime.Checkpoints(runtime.current().checkpoint_directory)
latest = kept.latest()
done = latest.step if latest else 0
print("begins after", done, flush=True)
for step in range(done + 1, {ALL} + 1):
    kept.save(step, lambda folder: (folder / "model").write_text(str(step)))
    if step == {HALFWAY}:
        print("halfway", flush=True)
        while not runtime.stopping():
            time.sleep(0.05)
        raise SystemExit(143)
"""


class DiskWorld(ForeignWorld):
    """One that removes what it made outside its namespace."""

    made: list[tuple[Resource[Any], str]]

    async def make(self, resource: Resource[Any], body: dict[str, Any]) -> None:
        """Make something that belongs to no namespace, named after this one."""
        await self.client.create(resource, {"metadata": {"name": self.namespace}, **body})
        self.made.append((resource, self.namespace))

    async def make_claim(self, node: str, path: str) -> None:
        """Make a volume of a node's directory, and claim it."""
        terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}]
        common = {"storageClassName": self.namespace, "accessModes": ["ReadWriteOnce"]}
        place = {"local": {"path": path}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
        await self.make(STORAGE_CLASSES, {"provisioner": "kubernetes.io/no-provisioner"})
        await self.make(VOLUMES, {"spec": {**common, **place, "capacity": {"storage": "1Gi"}}})
        spec = {**common, "resources": {"requests": {"storage": "1Gi"}}}
        await self.client.create(VOLUME_CLAIMS, {"metadata": {"name": "work"}, "spec": spec}, namespace=self.namespace)

    async def said(self, job_id: Any, attempt: int) -> list[str]:
        """What an attempt has written so far."""
        return [line.text async for line in self.engine.logs(LogQuery(job_id=job_id, attempt=attempt))]


@pytest.fixture
async def world(kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str) -> AsyncIterator[DiskWorld]:
    async with foreign_world(kubernetes_cluster, kubernetes_namespace, DiskWorld) as world:
        assert isinstance(world, DiskWorld)
        world.made = []
        yield world
        for resource, name in reversed(world.made):
            await world.client.delete(resource, name)


async def test_a_preempted_training_goes_on_from_its_checkpoint_on_a_claim(
    world: DiskWorld, kubernetes_cluster: ClusterUnderTest, kubernetes_python_image: str
) -> None:
    machines = kubernetes_cluster.require_machines()
    (node,) = await world.offer_seats(1)
    number = next(each.number for each in machines.nodes if each.name == node)
    # What the machine takes for its /run is a folder of the cluster's own.
    (machines.layout.node_folder(number) / "run" / world.namespace).mkdir()
    await world.make_claim(node, f"/run/{world.namespace}")
    seat = replace(SMALL, memory_mib=128, extended={world.seat: 1})
    worker = replace(shell("", resources=seat), command=("python3", "-c", TRAIN), image=kubernetes_python_image)
    low = await world.submit(worker, name="low", priority=10, labels={"gangline.dev/volume": "work"})

    async def halfway() -> bool:
        return "halfway" in await world.said(low, 1)

    await world.phase(low, Phase.PROCESSING)
    async with asyncio.timeout(60):
        while not await halfway():  # noqa: ASYNC110  # output sends no event
            await asyncio.sleep(0.1)
    high = await world.submit(
        shell(SERVE, resources=seat), name="high", priority=90, placement=PlacementRule(node_selector={HOSTNAME: node})
    )
    await world.phase(high, Phase.PROCESSING)
    waiting = await world.until(low, lambda job: job.placeable)
    assert (waiting.failures, waiting.attempt) == (0, 1), "preemption costs no attempt"
    await world.delete(high)
    job = await world.phase(low, Phase.COMPLETED)
    assert (job.attempt, job.failures) == (2, 0)
    assert [status.node for status in job.replicas] == [node]
    assert await world.said(low, 2) == [f"begins after {HALFWAY}"]
