"""Volumes that wait for a node and devices that kube-scheduler hands out, on a real cluster."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gangline.engines.kubernetes.node_rules.volumes import SELECTED_NODE, STORAGE_CLASSES, VOLUMES
from gangline.kube import VOLUME_CLAIMS, GenericObject, Resource
from gangline.model import Phase, PlacementRule, Prefer
from gangline.testing.builders import make_role
from tests.integration.kubernetes.foreign import ForeignWorld, foreign_world
from tests.integration.kubernetes.subject import SMALL
from tests.integration.kubernetes.world import SERVE, eventually, shell
from tools.cluster import BUSYBOX
from tools.cluster.pytest_plugin import ClusterUnderTest

_RESOURCES = "resource.k8s.io"
DEVICE_CLASSES = Resource(
    group=_RESOURCES, plural="deviceclasses", kind="DeviceClass", type=GenericObject, namespaced=False
)
SLICES = Resource(group=_RESOURCES, plural="resourceslices", kind="ResourceSlice", type=GenericObject, namespaced=False)
TEMPLATES = Resource(
    group=_RESOURCES, plural="resourceclaimtemplates", kind="ResourceClaimTemplate", type=GenericObject
)
DEVICE_CLAIMS = Resource(group=_RESOURCES, plural="resourceclaims", kind="ResourceClaim", type=GenericObject)
HOSTNAME = "kubernetes.io/hostname"


class StorageWorld(ForeignWorld):
    """One that removes what it made outside its namespace."""

    made: list[tuple[Resource[Any], str]]
    disk: str
    """A directory of this test's own: the kubelet gives a local volume to the pod's group, with all that is in it."""

    async def make(self, resource: Resource[Any], body: dict[str, Any]) -> None:
        """Make something that belongs to no namespace, named after this one."""
        body["metadata"] = {**body.get("metadata", {}), "name": self.namespace}
        await self.client.create(resource, body)
        self.made.append((resource, self.namespace))

    async def make_class(self, provisioner: str) -> None:
        """Make a storage class whose volumes wait for their pod."""
        await self.make(STORAGE_CLASSES, {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})

    async def make_volume(self, node: str) -> None:
        """Make a volume that lies ready on one node."""
        terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}]
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.namespace,
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": self.disk},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        }
        await self.make(VOLUMES, {"spec": spec})

    async def make_claim(self) -> None:
        """Claim one of them."""
        spec = {
            "storageClassName": self.namespace,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "500Mi"}},
        }
        await self.client.create(VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": spec}, namespace=self.namespace)

    async def claim(self) -> GenericObject:
        """Read the claim."""
        return await self.client.get(VOLUME_CLAIMS, "data", namespace=self.namespace)

    async def until_claim_is_bound(self) -> None:
        """Wait until the claim has its volume."""

        async def bound() -> bool:
            return (await self.claim()).status.get("phase") == "Bound"

        await eventually(bound)


@pytest.fixture
async def world(
    kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str, tmp_path: Path
) -> AsyncIterator[StorageWorld]:
    async with foreign_world(kubernetes_cluster, kubernetes_namespace, StorageWorld) as world:
        assert isinstance(world, StorageWorld)
        world.made = []
        world.disk = str(tmp_path)
        yield world
        for resource, name in reversed(world.made):
            await world.client.delete(resource, name)


def volume(name: str = "data") -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


async def last_node(world: ForeignWorld) -> str:
    """A node that no scheduler would choose first."""
    return [node.name for node in await world.engine.nodes() if node.ready and not node.taints][-1]


async def test_a_foreign_pod_goes_where_its_local_volume_is_and_gets_it(world: StorageWorld) -> None:
    node = await last_node(world)
    await world.make_class("kubernetes.io/no-provisioner")
    await world.make_claim()
    await world.make_pod("db", **volume())
    await world.until_told("db", "FailedScheduling", "no node reaches a volume for claim 'data'")
    await world.make_volume(node)
    assert await world.until_bound(1) == {"db": node}
    await world.until_claim_is_bound()
    assert (await world.claim()).spec["volumeName"] == world.namespace


async def test_a_claim_whose_volume_is_made_on_demand_learns_its_node(world: StorageWorld) -> None:
    await world.make_class("example.com/nobody")
    await world.make_claim()
    await world.make_pod("db", **volume())
    bound = await world.until_bound(1)
    assert (await world.claim()).metadata.annotations[SELECTED_NODE] == bound["db"]


async def test_a_claim_that_does_not_exist_is_named(world: StorageWorld) -> None:
    await world.make_pod("db", **volume("nothing"))
    await world.until_told("db", "FailedScheduling", "claim 'nothing' does not exist")
    assert await world.bound() == {}


async def test_a_job_of_ours_goes_where_its_local_volume_is_and_gets_it(world: StorageWorld) -> None:
    node = await last_node(world)
    await world.make_class("kubernetes.io/no-provisioner")
    await world.make_volume(node)
    await world.make_claim()
    job_id = await world.submit(shell(SERVE), labels={"gangline.dev/volume": "data"})
    await world.until_claim_is_bound()
    job = await world.phase(job_id, Phase.PROCESSING)
    assert [status.node for status in job.replicas] == [node]
    # From now on the volume is its claim's: whoever mounts it goes there too.
    template = json.dumps({"spec": volume()})
    second = await world.submit(shell(SERVE, pod_template_json=template), name="second")
    job = await world.phase(second, Phase.PROCESSING)
    assert [status.node for status in job.replicas] == [node]


async def test_replicas_that_share_a_volume_of_one_node_lie_there_together(world: StorageWorld) -> None:
    await world.make_class("example.com/nobody")
    await world.make_claim()
    spread = PlacementRule(prefer=Prefer.SPREAD)
    job_id = await world.submit(
        shell(SERVE, replicas=3, pod_template_json=json.dumps({"spec": volume()})), placement=spread
    )
    job = await world.until(job_id, lambda job: bool(job.replicas))
    nodes = {status.node for status in job.replicas}
    assert len(nodes) == 1

    async def claimed() -> bool:
        return (await world.claim()).metadata.annotations.get(SELECTED_NODE) in nodes

    await eventually(claimed)


async def test_a_job_of_ours_waits_where_its_volume_is_out_of_reach_and_says_why(world: StorageWorld) -> None:
    nodes = [node.name for node in await world.engine.nodes() if node.ready and not node.taints]
    await world.make_class("kubernetes.io/no-provisioner")
    await world.make_volume(nodes[-1])
    await world.make_claim()
    placement = PlacementRule(node_selector={HOSTNAME: nodes[0]})
    job_id = await world.submit(shell(SERVE), labels={"gangline.dev/volume": "data"}, placement=placement)

    async def told() -> bool:
        why = world.controller.explanation(job_id)
        return why is not None and f"{HOSTNAME} In {nodes[-1]}" in " ".join(why.words())

    await eventually(told)
    assert await world.pods() == []


async def test_a_job_of_ours_waits_without_machines_until_its_claim_is_there(world: StorageWorld) -> None:
    job_id = await world.submit(shell(SERVE), labels={"gangline.dev/volume": "data"})

    async def told() -> bool:
        why = world.controller.explanation(job_id)
        return why is not None and "claim 'data' does not exist" in " ".join(why.words())

    await eventually(told)
    assert (await world.store.get(job_id)).attempt == 0
    await world.make_class("kubernetes.io/no-provisioner")
    await world.make_volume(await last_node(world))
    await world.make_claim()
    job = await world.phase(job_id, Phase.PROCESSING)
    assert job.attempt == 1


async def test_a_job_of_ours_for_which_no_volume_is_left_is_told_so(world: StorageWorld) -> None:
    await world.make_class("kubernetes.io/no-provisioner")
    await world.make_claim()
    job_id = await world.submit(shell(SERVE), labels={"gangline.dev/volume": "data"})

    async def told() -> bool:
        why = world.controller.explanation(job_id)
        return why is not None and "no node reaches a volume for claim 'data'" in " ".join(why.words())

    await eventually(told)
    assert (await world.store.get(job_id)).phase is Phase.QUEUED


async def test_kube_scheduler_binds_a_replica_with_a_device_where_we_placed_it(world: StorageWorld) -> None:
    node = await last_node(world)
    driver = f"{world.namespace}.example.com"
    await world.make(DEVICE_CLASSES, {"spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}})
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    await world.make(
        SLICES, {"spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "device-0"}]}}
    )
    asked = {"name": "device", "exactly": {"deviceClassName": world.namespace}}
    body = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [asked]}}}}
    await world.client.create(TEMPLATES, body, namespace=world.namespace)
    template = {
        "spec": {
            "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "one"}],
            "containers": [{"name": "main", "image": BUSYBOX, "resources": {"claims": [{"name": "device"}]}}],
        }
    }
    role = make_role(
        "worker",
        command=("sh", "-c", SERVE),
        resources=SMALL,
        pod_template_json=msgspec.json.encode(template).decode(),
    )
    await world.submit(role, placement=PlacementRule(node_selector={HOSTNAME: node}))
    bound = await world.until_bound(1)
    assert list(bound.values()) == [node]
    pod = next(iter(await world.pods()))
    assert pod.spec.scheduler_name == "default-scheduler"
    claims = (await world.client.list(DEVICE_CLAIMS, namespace=world.namespace)).items or []
    assert claims[0].status["allocation"]["devices"]["results"][0]["pool"] == node


async def test_a_foreign_pod_with_a_device_claim_is_told_to_leave_our_name_out(world: StorageWorld) -> None:
    claims = [{"name": "device", "resourceClaimTemplateName": "one"}]
    await world.make_pod("device", resourceClaims=claims)
    await world.until_told("device", "FailedScheduling", "leave schedulerName out")
