"""Volumes that wait for their pod's node, and nodes that a pod's volumes allow.

A claim of a class with ``WaitForFirstConsumer`` gets its volume only when somebody says where its pod will run: by an
annotation on the claim where volumes are made on demand, by a reference in the volume where they lie ready on nodes.
kube-scheduler does this for the pods it binds, and here it is done for those we place. Claims are read when a pod needs
one and never watched: a cluster without them pays nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from gangline.dialects import quantities
from gangline.engines.kubernetes.node_rules.node_terms import LabelSelector, labels_to_term, node_matches
from gangline.engines.kubernetes.refusals import Refusal, RefusedError
from gangline.errors import EngineError
from gangline.kube import VOLUME_CLAIMS, ConflictError, GenericObject, KubeClient, Node, NotFoundError, Object, Resource
from gangline.kube.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement

VOLUMES = Resource(plural="persistentvolumes", kind="PersistentVolume", type=GenericObject, namespaced=False)
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class StorageClass(Object, frozen=True):
    """How volumes of a class come about."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[dict[str, Any], ...] = ()


STORAGE_CLASSES = Resource(
    group="storage.k8s.io", plural="storageclasses", kind="StorageClass", type=StorageClass, namespaced=False
)


class VolumeError(EngineError):
    """A pod cannot have its volume, at least for now."""


class VolumeElsewhereError(RefusedError):
    """A gang was given nodes from which its volumes are out of reach."""

    def __init__(self, message: str) -> None:
        super().__init__(Refusal(reason="VolumeUnavailable", message=message, permanent=True))


class Sharing(StrEnum):
    """Who may use a claim at once."""

    ANYWHERE = "anywhere"
    ONE_NODE = "one node"
    ONE_POD = "one pod"


@dataclass(frozen=True, slots=True)
class Reach:
    """From where a claim's volume is used, None: from everywhere; and who may use it at once."""

    nodes: NodeSelector | None = None
    sharing: Sharing = Sharing.ANYWHERE


@dataclass(frozen=True, slots=True)
class _Pending:
    """A claim that waits for a node, with its class and, if volumes lie ready, those that would do."""

    claim: GenericObject
    kind: StorageClass
    ready: tuple[GenericObject, ...]

    @property
    def made_on_demand(self) -> bool:
        return self.kind.provisioner != NO_PROVISIONER

    def choice(self) -> NodeSelector | None:
        if self.made_on_demand:
            return _allowed(self.kind)
        found = [_affinity(volume) for volume in self.ready]
        if any(affinity is None for affinity in found):
            return None  # one of them is reached from everywhere
        terms = [term for affinity in found if affinity is not None for term in affinity.node_selector_terms]
        return NodeSelector(node_selector_terms=tuple(terms))


class Volumes:
    """Reads claims and gives them their nodes."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def reach(self, namespace: str, name: str) -> Reach:
        """Say from where a claim can be used; raises VolumeError for one that no node helps."""
        claim, state = await self._look(namespace, name)
        choice = state.choice() if isinstance(state, _Pending) else _affinity(state)
        return Reach(choice, _sharing(claim))

    async def give_nodes(self, namespace: str, wanted: Sequence[tuple[str, Node]]) -> None:
        """Tell every claim that waits for it where it is needed.

        Raises VolumeElsewhereError, before anything is written, for one whose volume is out of that node's reach. What
        has no volume for another reason is left to the kubelet, which says so.
        """
        writes: dict[str, tuple[_Pending, Node, GenericObject | None]] = {}
        used: set[str] = set()
        for name, node in wanted:
            if name in writes:
                continue  # shared by several pods: the first one's node is as good as any
            try:
                _, state = await self._look(namespace, name)
            except VolumeError:
                continue
            if isinstance(state, _Pending):
                volume = None if state.made_on_demand else _smallest(state.ready, node, used)
                if volume is None and not state.made_on_demand:
                    raise VolumeElsewhereError(f"no free volume for claim '{name}' can be used on {node.metadata.name}")
                used.update([volume.metadata.name] if volume is not None else ())
                writes[name] = state, node, volume
            elif (affinity := _affinity(state)) is not None and not node_matches(affinity, node):
                raise VolumeElsewhereError(f"the volume of claim '{name}' cannot be used on {node.metadata.name}")
        for state, node, volume in writes.values():
            await self._give(state, node, volume)

    async def _give(self, state: _Pending, node: Node, volume: GenericObject | None) -> None:
        claim = state.claim.metadata
        if volume is None:
            patch: dict[str, Any] = {"metadata": {"annotations": {SELECTED_NODE: node.metadata.name}}}
            await self._client.patch(VOLUME_CLAIMS, claim.name, patch, namespace=claim.namespace)
            return
        patch = {
            "metadata": {
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {BOUND_BY_CONTROLLER: "yes"},
            },
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": claim.namespace,
                    "name": claim.name,
                    "uid": claim.uid,
                }
            },
        }
        try:
            await self._client.patch(VOLUMES, volume.metadata.name, patch)
        except ConflictError as error:
            raise VolumeElsewhereError(f"volume '{volume.metadata.name}' was taken meanwhile") from error

    async def _look(self, namespace: str, name: str) -> tuple[GenericObject, "_Pending | GenericObject"]:
        """Return a claim and its volume, or what it waits for."""
        try:
            claim = await self._client.get(VOLUME_CLAIMS, name, namespace=namespace)
        except NotFoundError as error:
            raise VolumeError(f"claim '{name}' does not exist") from error
        try:
            if volume := claim.spec.get("volumeName"):
                return claim, await self._client.get(VOLUMES, volume)
            kind = await self._client.get(STORAGE_CLASSES, claim.spec.get("storageClassName") or "-")
        except NotFoundError as error:
            raise VolumeError(f"claim '{name}' has no volume: {error.message}") from error
        if kind.volume_binding_mode != "WaitForFirstConsumer":
            raise VolumeError(f"claim '{name}' has no volume yet")
        if kind.provisioner != NO_PROVISIONER:
            return claim, _Pending(claim, kind, ())
        listed = (await self._client.list(VOLUMES)).items or ()
        return claim, _Pending(claim, kind, tuple(volume for volume in listed if _suits(volume, claim)))


def _sharing(claim: GenericObject) -> Sharing:
    modes = set(claim.spec.get("accessModes") or ())
    if modes == {"ReadWriteOncePod"}:
        return Sharing.ONE_POD
    return Sharing.ONE_NODE if modes and modes <= {"ReadWriteOnce", "ReadWriteOncePod"} else Sharing.ANYWHERE


def _suits(volume: GenericObject, claim: GenericObject) -> bool:
    """Whether a volume that lies ready would do for a claim, on whatever node."""
    spec, wanted = volume.spec, claim.spec
    reserved = spec.get("claimRef")
    if reserved is not None and reserved.get("uid") != claim.metadata.uid:
        return False
    size = quantities.quantity(spec.get("capacity", {}).get("storage", "0"))
    asked = quantities.quantity(wanted.get("resources", {}).get("requests", {}).get("storage", "0"))
    return (
        volume.metadata.deletion_timestamp is None
        and spec.get("storageClassName") == wanted.get("storageClassName")
        and spec.get("volumeMode", "Filesystem") == wanted.get("volumeMode", "Filesystem")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and size >= asked
        and _selected(wanted.get("selector"), volume)
    )


def _selected(selector: Mapping[str, Any] | None, volume: GenericObject) -> bool:
    term = labels_to_term(msgspec.convert(selector or {}, LabelSelector))
    return all(each.holds(volume.metadata.labels) for each in term)


def _smallest(volumes: Iterable[GenericObject], node: Node, used: set[str]) -> GenericObject | None:
    """Choose as kube-scheduler does: one that is the claim's already, else the smallest that this node reaches."""
    near = [
        volume
        for volume in volumes
        if volume.metadata.name not in used
        and ((affinity := _affinity(volume)) is None or node_matches(affinity, node))
    ]
    return min(near, key=_preference, default=None)


def _preference(volume: GenericObject) -> tuple[bool, Any, str]:
    size = quantities.quantity(volume.spec.get("capacity", {}).get("storage", "0"))
    return volume.spec.get("claimRef") is None, size, volume.metadata.name


def _affinity(volume: GenericObject) -> NodeSelector | None:
    required = (volume.spec.get("nodeAffinity") or {}).get("required")
    return msgspec.convert(required, NodeSelector) if required else None


def _allowed(kind: StorageClass) -> NodeSelector | None:
    """Where a class makes volumes at all."""
    if not kind.allowed_topologies:
        return None
    return NodeSelector(
        node_selector_terms=tuple(_term(each.get("matchLabelExpressions") or ()) for each in kind.allowed_topologies)
    )


def _term(expressions: Sequence[Mapping[str, Any]]) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=tuple(
            SelectorRequirement(key=each["key"], operator="In", values=tuple(each.get("values") or ()))
            for each in expressions
        )
    )
