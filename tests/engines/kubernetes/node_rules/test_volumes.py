"""Which volume a claim gets, and which nodes its claims leave a pod."""

from typing import Any

import msgspec
import pytest

from gangline.engines.kubernetes.node_rules.node_terms import node_matches
from gangline.engines.kubernetes.node_rules.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    VolumeElsewhereError,
    VolumeError,
    Volumes,
)
from gangline.kube import NotFoundError, ObjectList, Resource
from tests.engines.kubernetes.foreign.builders import NAMESPACE, make_kube_node

NODES = {name: make_kube_node(name, labels={"host": name}) for name in ("node-0", "node-1")}


class Storage:
    """Claims, volumes and classes, and what was written to them."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.patches: dict[str, dict[str, Any]] = {}

    async def get(self, resource: Resource[Any], name: str, **_: object) -> Any:
        """Read one."""
        if (resource.plural, name) not in self.objects:
            raise NotFoundError(f"no {name}", status=404)
        return msgspec.convert(self.objects[resource.plural, name], resource.type)

    async def list(self, resource: Resource[Any], **_: object) -> ObjectList[Any]:
        """Read all."""
        names = [name for plural, name in self.objects if plural == resource.plural]
        return ObjectList(items=[await self.get(resource, name) for name in names])

    async def patch(self, resource: Resource[Any], name: str, patch: dict[str, Any], **_: object) -> None:
        """Note what is written."""
        self.patches[name] = patch

    def kind(self, provisioner: str = NO_PROVISIONER, mode: str = "WaitForFirstConsumer", **fields: Any) -> None:
        """Have a class named ``local``."""
        body = {"provisioner": provisioner, "volumeBindingMode": mode, **fields}
        self.objects["storageclasses", "local"] = {"metadata": {"name": "local"}, **body}

    def claim(self, name: str = "data", **spec: Any) -> None:
        """Have a claim."""
        wanted = {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        }
        metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
        self.objects["persistentvolumeclaims", name] = {"metadata": metadata, "spec": wanted}

    def volume(self, name: str, node: str | None = "node-0", size: str = "1Gi", **spec: Any) -> None:
        """Have a volume on a node."""
        where = {"matchExpressions": [{"key": "host", "operator": "In", "values": [node]}]}
        body = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            **({"nodeAffinity": {"required": {"nodeSelectorTerms": [where]}}} if node else {}),
            **spec,
        }
        self.objects["persistentvolumes", name] = {"metadata": {"name": name, "resourceVersion": "7"}, "spec": body}


@pytest.fixture
def storage() -> Storage:
    return Storage()


@pytest.fixture
def volumes(storage: Storage) -> Volumes:
    return Volumes(storage)


async def allowed(volumes: Volumes) -> list[str]:
    """The nodes that the claim leaves."""
    reached = (await volumes.reach(NAMESPACE, "data")).nodes
    return [name for name, node in NODES.items() if reached is None or node_matches(reached, node)]


async def test_a_bound_local_volume_leaves_its_own_node(storage: Storage, volumes: Volumes) -> None:
    storage.claim(volumeName="disk")
    storage.volume("disk", "node-1")
    assert await allowed(volumes) == ["node-1"]


async def test_a_bound_volume_of_the_network_leaves_all(storage: Storage, volumes: Volumes) -> None:
    storage.claim(volumeName="disk")
    storage.volume("disk", None)
    assert await allowed(volumes) == ["node-0", "node-1"]


async def test_free_volumes_leave_the_nodes_they_lie_on(storage: Storage, volumes: Volumes) -> None:
    storage.kind()
    storage.claim()
    storage.volume("taken", "node-0", claimRef={"uid": "somebody"})
    storage.volume("free", "node-1")
    assert await allowed(volumes) == ["node-1"]


async def test_a_class_may_make_volumes_only_in_some_places(storage: Storage, volumes: Volumes) -> None:
    storage.kind(
        "example.com/csi", allowedTopologies=[{"matchLabelExpressions": [{"key": "host", "values": ["node-0"]}]}]
    )
    storage.claim()
    assert await allowed(volumes) == ["node-0"]


@pytest.mark.parametrize(
    ("mode", "claims", "message"),
    [
        pytest.param("Immediate", True, "has no volume yet", id="still being made"),
        pytest.param("WaitForFirstConsumer", False, "claim 'data' does not exist", id="no such claim"),
    ],
)
async def test_what_no_node_helps_is_said(
    storage: Storage, volumes: Volumes, mode: str, claims: bool, message: str
) -> None:
    storage.kind(mode=mode)
    if claims:
        storage.claim()
    with pytest.raises(VolumeError, match=message):
        await volumes.reach(NAMESPACE, "data")
    await volumes.give_nodes(NAMESPACE, [("data", NODES["node-0"])])
    assert storage.patches == {}, "the kubelet says what is missing"


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        pytest.param({}, True, id="just right"),
        pytest.param({"size": "1000Mi"}, False, id="too small"),
        pytest.param({"accessModes": ["ReadOnlyMany"]}, False, id="another access mode"),
        pytest.param({"storageClassName": "other"}, False, id="another class"),
        pytest.param({"volumeMode": "Block"}, False, id="another mode"),
        pytest.param({"node": "node-1"}, False, id="another node"),
        pytest.param({"claimRef": {"uid": "uid-data"}}, True, id="ours since an earlier try"),
        pytest.param({"claimRef": {"uid": "uid-other"}}, False, id="somebody else's"),
    ],
)
async def test_a_volume_fits_or_the_gang_is_refused(
    storage: Storage, volumes: Volumes, fields: dict[str, Any], fits: bool
) -> None:
    storage.kind()
    storage.claim()
    storage.volume("disk", **fields)
    if fits:
        await volumes.give_nodes(NAMESPACE, [("data", NODES["node-0"])])
        assert storage.patches["disk"]["spec"]["claimRef"]["uid"] == "uid-data"
        assert storage.patches["disk"]["metadata"]["resourceVersion"] == "7"
    else:
        with pytest.raises(VolumeElsewhereError, match="no free volume for claim 'data' can be used on node-0"):
            await volumes.give_nodes(NAMESPACE, [("data", NODES["node-0"])])
        assert storage.patches == {}


async def test_claims_of_one_gang_never_share_a_volume_and_take_the_smallest(
    storage: Storage, volumes: Volumes
) -> None:
    storage.kind()
    for name in ("data", "more"):
        storage.claim(name)
    for name, size in (("large", "9Gi"), ("small", "2Gi"), ("middle", "5Gi")):
        storage.volume(name, size=size)
    await volumes.give_nodes(NAMESPACE, [("data", NODES["node-0"]), ("more", NODES["node-0"])])
    given = {volume: patch["spec"]["claimRef"]["name"] for volume, patch in storage.patches.items()}
    assert given == {"small": "data", "middle": "more"}


async def test_a_volume_made_on_demand_is_told_the_first_node(storage: Storage, volumes: Volumes) -> None:
    storage.kind("example.com/csi")
    storage.claim()
    await volumes.give_nodes(NAMESPACE, [("data", NODES["node-1"]), ("data", NODES["node-0"])])
    assert storage.patches["data"]["metadata"]["annotations"] == {SELECTED_NODE: "node-1"}


async def test_a_bound_volume_out_of_reach_is_named(storage: Storage, volumes: Volumes) -> None:
    storage.claim(volumeName="disk")
    storage.volume("disk", "node-1")
    with pytest.raises(VolumeElsewhereError, match="the volume of claim 'data' cannot be used on node-0"):
        await volumes.give_nodes(NAMESPACE, [("data", NODES["node-0"])])
