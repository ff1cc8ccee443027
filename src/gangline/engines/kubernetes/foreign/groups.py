"""The three kinds of PodGroup, and what of them concerns us: how many pods must start together. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gangline.engines.kubernetes.node_rules.affinity import level_of
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod
from gangline.kube import GenericObject, OwnerReference, Resource

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
VOLCANO_TASK = "volcano.sh/task-spec"
PLUGINS_GROUP = "scheduling.x-k8s.io/pod-group"


class GroupKind(StrEnum):
    """Whose PodGroup it is."""

    VOLCANO = "volcano"
    PLUGINS = "scheduler-plugins"
    NATIVE = "native"
    WORKLOAD = "workload"
    """What the native one was in Kubernetes 1.35."""


GROUP_RESOURCES: Mapping[GroupKind, Resource[GenericObject]] = {
    GroupKind.VOLCANO: Resource(
        group="scheduling.volcano.sh", version="v1beta1", plural="podgroups", kind="PodGroup", type=GenericObject
    ),
    GroupKind.PLUGINS: Resource(
        group="scheduling.x-k8s.io", version="v1alpha1", plural="podgroups", kind="PodGroup", type=GenericObject
    ),
    GroupKind.NATIVE: Resource(
        group="scheduling.k8s.io", version="v1alpha2", plural="podgroups", kind="PodGroup", type=GenericObject
    ),
    GroupKind.WORKLOAD: Resource(
        group="scheduling.k8s.io", version="v1alpha1", plural="workloads", kind="Workload", type=GenericObject
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupName:
    """Which group a pod belongs to. A Workload has several, each perhaps in several copies."""

    kind: GroupKind
    namespace: str
    name: str
    part: str = ""
    copy: str = ""

    def __str__(self) -> str:
        return f"{GROUP_RESOURCES[self.kind].kind} '{'/'.join(filter(None, (self.name, self.part, self.copy)))}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as its author wrote it: it runs with ``least`` pods or not at all."""

    name: GroupName
    owner: OwnerReference
    least: int
    least_of_task: Mapping[str, int] = field(default_factory=dict)
    queue: str | None = None
    priority_class: str | None = None
    priority_value: int | None = None
    within: str | None = None


def group_of(pod: WatchedPod) -> GroupName | None:
    """Say which group a pod belongs to, if to any."""
    namespace, spec = pod.metadata.namespace, pod.spec
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return GroupName(kind=GroupKind.NATIVE, namespace=namespace, name=spec.scheduling_group.pod_group_name)
    if spec.workload_ref is not None:
        reference = spec.workload_ref
        return GroupName(
            kind=GroupKind.WORKLOAD,
            namespace=namespace,
            name=reference.name,
            part=reference.pod_group,
            copy=reference.pod_group_replica_key,
        )
    if name := pod.metadata.annotations.get(VOLCANO_GROUP):
        return GroupName(kind=GroupKind.VOLCANO, namespace=namespace, name=name)
    if name := pod.metadata.labels.get(PLUGINS_GROUP):
        return GroupName(kind=GroupKind.PLUGINS, namespace=namespace, name=name)
    return None


def task_of(pod: WatchedPod) -> str:
    """Which task of its group a pod plays, where groups have tasks."""
    return pod.metadata.annotations.get(VOLCANO_TASK, "")


def read_group(name: GroupName, item: GenericObject) -> Group | None:
    """Read a group's object; None if it has no such part."""
    resource = GROUP_RESOURCES[name.kind]
    owner = OwnerReference(
        api_version=resource.api_version, kind=resource.kind, name=item.metadata.name, uid=item.metadata.uid
    )
    spec = item.spec
    match name.kind:
        case GroupKind.VOLCANO:
            return Group(
                name=name,
                owner=owner,
                least=spec.get("minMember") or 1,
                least_of_task=spec.get("minTaskMember") or {},
                queue=spec.get("queue"),
                priority_class=spec.get("priorityClassName"),
            )
        case GroupKind.PLUGINS:
            return Group(name=name, owner=owner, least=spec.get("minMember") or 1)
        case GroupKind.NATIVE:
            return Group(
                name=name,
                owner=owner,
                least=_least(spec.get("schedulingPolicy")),
                priority_class=spec.get("priorityClassName"),
                priority_value=spec.get("priority"),
                within=_within(spec.get("schedulingConstraints") or {}),
            )
        case GroupKind.WORKLOAD:
            part = next((each for each in spec.get("podGroups") or () if each.get("name") == name.part), None)
            return Group(name=name, owner=owner, least=_least(part.get("policy"))) if part is not None else None


def _least(policy: Mapping[str, Any] | None) -> int:
    """A basic policy starts each pod on its own."""
    gang = (policy or {}).get("gang") or {}
    return gang.get("minCount") or 1


def _within(constraints: Mapping[str, Any]) -> str | None:
    return next((level_of(each.get("key", "")) for each in constraints.get("topology") or ()), None)
