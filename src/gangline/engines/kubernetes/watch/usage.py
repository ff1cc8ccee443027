"""What is used now: from the metrics API where the cluster has one, else what pods have asked for."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.node_rules.capacity import amounts_to_resources, occupies, pod_requests
from gangline.engines.kubernetes.watch.pod_events import main_state
from gangline.kube import AnswerError, ApiError, KubeClient, Partial, Pod, read_answer
from gangline.kube.objects import Metadata
from gangline.model import Node, NodeName, NodeUsage, ReplicaUsage, Resources, Usage

_METRICS = "/apis/metrics.k8s.io/v1beta1"


class _Container(Partial, frozen=True):
    usage: dict[str, str] = msgspec.field(default_factory=dict)


class _Measured(Partial, frozen=True):
    metadata: Metadata = Metadata()
    usage: dict[str, str] = msgspec.field(default_factory=dict)
    containers: list[_Container] = msgspec.field(default_factory=list)


class _MeasuredList(Partial, frozen=True):
    items: list[_Measured] = msgspec.field(default_factory=list)


_measured_decoder = msgspec.json.Decoder(_MeasuredList)


async def measure(
    client: KubeClient, *, nodes: Sequence[Node], pods: Iterable[tuple[ReplicaKey, Pod]], namespace: str | None = None
) -> Usage:
    """Measure every node and every running replica; those of one namespace alone for whom may see no more."""
    running = [(key, pod) for key, pod in pods if main_state(pod).running is not None]
    by_node = {item.metadata.name: amounts_to_resources(item.usage) for item in await _read(client, "nodes")}
    measured = await _read(client, "pods") or (await _read(client, f"namespaces/{namespace}/pods") if namespace else [])
    by_pod = {(item.metadata.namespace, item.metadata.name): _sum(item) for item in measured}
    return Usage(
        nodes=tuple(NodeUsage(node=node.name, used=by_node.get(node.name) or _asked(node, running)) for node in nodes),
        replicas=tuple(_replica(key, pod, by_pod) for key, pod in running),
    )


async def measured_cpu(client: KubeClient, namespace: str) -> dict[tuple[str, str], int]:
    """Return the thousandths of a processor that pods use now, by namespace and name; nothing without a metrics API."""
    found = await _read(client, f"namespaces/{namespace}/pods")
    return {(item.metadata.namespace, item.metadata.name): _sum(item).cpu_millis for item in found}


def _replica(key: ReplicaKey, pod: Pod, by_pod: Mapping[tuple[str, str], Resources]) -> ReplicaUsage:
    used = by_pod.get((pod.metadata.namespace, pod.metadata.name)) or pod_requests(pod)
    return ReplicaUsage(
        job_id=key.gang_id.job_id,
        replica=key.replica,
        node=NodeName(pod.spec.node_name),
        cpu_millis=used.cpu_millis,
        memory_mib=used.memory_mib,
    )


def _asked(node: Node, running: Iterable[tuple[ReplicaKey, Pod]]) -> Resources:
    total = node.foreign
    for _, pod in running:
        if pod.spec.node_name == node.name and occupies(pod):
            total += pod_requests(pod)
    return total


def _sum(item: _Measured) -> Resources:
    total = Resources()
    for container in item.containers:
        total += amounts_to_resources(container.usage)
    return total


async def _read(client: KubeClient, kind: str) -> list[_Measured]:
    try:
        return read_answer(await client.raw(f"{_METRICS}/{kind}"), _measured_decoder).items
    except (ApiError, AnswerError):
        return []  # no metrics server, or not for us: figures are then what was asked for
