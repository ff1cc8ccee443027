"""Nodes, queues and usage on the wire. Amounts keep the model's units, which are in their names."""

import msgspec

from gangline.engines.interface import NodeUsage, ReplicaUsage, Usage
from gangline.model import Node, Queue, Resources


class ResourcesSchema(msgspec.Struct, kw_only=True):
    """An amount of each resource."""

    cpu_millis: int
    memory_mib: int
    gpu_millis: int
    extended: dict[str, int]


class TaintSchema(msgspec.Struct, kw_only=True):
    """What keeps replicas away."""

    key: str
    value: str
    effect: str


class NodeSchema(msgspec.Struct, kw_only=True):
    """One machine."""

    name: str
    capacity: ResourcesSchema
    foreign: ResourcesSchema
    gpu_type: str | None
    labels: dict[str, str]
    taints: list[TaintSchema]
    topology: dict[str, str]
    ready: bool
    cordoned: bool
    pods: int
    foreign_pods: int
    shares_gpus: bool


class QueueSchema(msgspec.Struct, kw_only=True):
    """One queue."""

    name: str
    parent: str | None
    weight: int
    guarantee: ResourcesSchema
    limit: ResourcesSchema | None
    may_borrow: bool
    tenants: list[str] = []


class NodeUsageSchema(msgspec.Struct, kw_only=True):
    """What is used of one node."""

    node: str
    used: ResourcesSchema
    gpu_percent: dict[str, int]
    gpu_memory_mib: dict[str, int]


class ReplicaUsageSchema(msgspec.Struct, kw_only=True):
    """What one replica uses."""

    job_id: str
    replica: str
    node: str
    cpu_millis: int
    memory_mib: int
    gpus: list[str]


class UsageSchema(msgspec.Struct, kw_only=True):
    """A moment's measurement."""

    nodes: list[NodeUsageSchema]
    replicas: list[ReplicaUsageSchema]


def node_to_schema(node: Node) -> NodeSchema:
    """Write a node."""
    return NodeSchema(
        name=node.name,
        capacity=_resources(node.capacity),
        foreign=_resources(node.foreign),
        gpu_type=node.gpu_type,
        labels=dict(node.labels),
        taints=[TaintSchema(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.taints],
        topology=dict(node.topology),
        ready=node.ready,
        cordoned=node.cordoned,
        pods=node.pods,
        foreign_pods=node.foreign_pods,
        shares_gpus=node.shares_gpus,
    )


def queue_to_schema(queue: Queue) -> QueueSchema:
    """Write a queue."""
    return QueueSchema(
        name=queue.name,
        parent=queue.parent,
        weight=queue.weight,
        guarantee=_resources(queue.guarantee),
        limit=None if queue.limit is None else _resources(queue.limit),
        may_borrow=queue.may_borrow,
        tenants=list(queue.tenants),
    )


def usage_to_schema(usage: Usage) -> UsageSchema:
    """Write a measurement."""
    return UsageSchema(
        nodes=[_node_usage(node) for node in usage.nodes],
        replicas=[_replica_usage(replica) for replica in usage.replicas],
    )


def _node_usage(usage: NodeUsage) -> NodeUsageSchema:
    return NodeUsageSchema(
        node=usage.node,
        used=_resources(usage.used),
        gpu_percent=dict(usage.gpu_percent),
        gpu_memory_mib=dict(usage.gpu_memory_mib),
    )


def _replica_usage(usage: ReplicaUsage) -> ReplicaUsageSchema:
    return ReplicaUsageSchema(
        job_id=usage.job_id,
        replica=str(usage.replica),
        node=usage.node,
        cpu_millis=usage.cpu_millis,
        memory_mib=usage.memory_mib,
        gpus=list(usage.gpus),
    )


def _resources(resources: Resources) -> ResourcesSchema:
    return ResourcesSchema(
        cpu_millis=resources.cpu_millis,
        memory_mib=resources.memory_mib,
        gpu_millis=resources.gpu_millis,
        extended=dict(resources.extended),
    )
