"""What Kubernetes nodes offer and pods ask for, in the model's whole numbers. Pure."""

from collections.abc import Mapping
from functools import lru_cache

from gangline.dialects import quantities
from gangline.kube import Node, Pod
from gangline.kube.objects import Container
from gangline.model import Node as ModelNode
from gangline.model import NodeName, Resources, Taint

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
"""Names under which device plugins offer whole GPUs."""
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
PORT_PREFIX = "gangline.dev/port."

_GPU_TYPE_LABELS = ("gangline.dev/gpu-type", "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
_GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
"""In MiB, as the GPU feature discovery writes it."""
_GPU_MAKERS = frozenset({"nvidia", "tesla", "geforce", "amd", "instinct", "quadro"})
_TOPOLOGY_PREFIX = "gangline.dev/topology."
_TOPOLOGY_LABELS = {
    "topology.kubernetes.io/region": "region",
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/rack": "rack",
    "nvidia.com/gpu.clique": "island",
}
_NOT_COUNTED = ("hugepages-", "attachable-volumes-")


@lru_cache(maxsize=4096)
def _cpu(text: str) -> int:
    return quantities.cpu_millis(text)


@lru_cache(maxsize=4096)
def _mib_up(text: str) -> int:
    return quantities.memory_mib(text)


@lru_cache(maxsize=4096)
def _mib_down(text: str) -> int:
    return int(quantities.quantity(text) // (1024 * 1024))


@lru_cache(maxsize=4096)
def _whole(text: str) -> int:
    return int(quantities.quantity(text))


def amounts_to_resources(amounts: Mapping[str, str], *, offered: bool = False) -> Resources:
    """Read a Kubernetes resource list. What is offered is rounded down, what is asked for is rounded up."""
    memory = _mib_down if offered else _mib_up
    gpus = 0
    extended: dict[str, int] = {}
    for name, amount in amounts.items():
        if name in GPU_RESOURCES:
            gpus += 1000 * _whole(amount)
        elif "/" in name and not name.startswith(_NOT_COUNTED):
            extended[name] = _whole(amount)
    return Resources(
        cpu_millis=_cpu(amounts.get("cpu", "0")),
        memory_mib=memory(amounts.get("memory", "0")),
        gpu_millis=gpus,
        extended=extended,
    )


def pod_requests(pod: Pod) -> Resources:
    """What a pod takes of its node: as the kubelet counts it, sidecars and init containers included."""
    running = Resources()
    highest = Resources()
    for container in pod.spec.init_containers:
        asked = _container_requests(container)
        if container.restart_policy == "Always":
            running += asked
            highest = highest | running
        else:
            highest = highest | (running + asked)
    for container in pod.spec.containers:
        running += _container_requests(container)
    total = highest | running
    if pod.spec.resources is not None and pod.spec.resources.requests:
        total = total | amounts_to_resources(pod.spec.resources.requests)
    return total + amounts_to_resources(pod.spec.overhead) if pod.spec.overhead else total


def _container_requests(container: Container) -> Resources:
    asked = container.resources
    return amounts_to_resources({**asked.limits, **asked.requests})


def host_ports(pod: Pod) -> dict[str, int]:
    """The ports of its node that a pod takes, each as a resource of which every node has one."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return {
        f"{PORT_PREFIX}{port.protocol.lower()}-{port.host_port}": 1
        for container in containers
        for port in container.ports
        if port.host_port
    }


def taken(pod: Pod) -> Resources:
    """All that a pod takes of its node: amounts, and the node's own ports."""
    ports = host_ports(pod)
    return pod_requests(pod) + Resources(extended=ports) if ports else pod_requests(pod)


def occupies(pod: Pod) -> bool:
    """Whether a pod takes something of a node now."""
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED_PHASES


def is_ready(node: Node) -> bool:
    """Whether the node's kubelet is well."""
    return _ready_status(node) == "True"


def is_lost(node: Node | None) -> bool:
    """Whether nobody has heard of the node for longer than the cluster allows, or it was removed."""
    return node is None or _ready_status(node) == "Unknown"


def _ready_status(node: Node) -> str:
    return next((condition.status for condition in node.status.conditions if condition.type == "Ready"), "Unknown")


def node_to_model(
    node: Node, *, foreign: Resources, foreign_pods: int, synthetic_resources: Mapping[str, int]
) -> ModelNode:
    """Describe a node to the scheduler; ``synthetic_resources`` are what it has besides what its kubelet says."""
    allocatable = node.status.allocatable
    labels = node.metadata.labels
    return ModelNode(
        name=NodeName(node.metadata.name),
        capacity=amounts_to_resources(allocatable, offered=True) + Resources(extended=synthetic_resources),
        foreign=foreign,
        gpu_type=gpu_type(labels),
        labels=labels,
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in node.spec.taints),
        topology=topology(labels),
        ready=is_ready(node),
        cordoned=node.spec.unschedulable,
        pods=_whole(allocatable.get("pods", "110")),
        foreign_pods=foreign_pods,
        # A device plugin hands out whole GPUs; what is called a fraction of one asks for one.
        shares_gpus=False,
        gpu_memory_mib=int(memory) if (memory := labels.get(_GPU_MEMORY_LABEL, "")).isdigit() else 0,
    )


def gpu_resource(node: Node | None) -> str:
    """Under which name this node offers its GPUs."""
    offered = node.status.allocatable if node is not None else {}
    return next((name for name in GPU_RESOURCES if name in offered), GPU_RESOURCES[0])


def gpu_type(labels: Mapping[str, str]) -> str | None:
    """The GPU's type as people say it: NVIDIA-A100-SXM4-80GB is an a100."""
    for label in _GPU_TYPE_LABELS:
        if not (value := labels.get(label, "").lower()):
            continue
        words = [word for word in value.split("-") if word not in _GPU_MAKERS]
        if not words:
            return value
        return "-".join(words[:2]) if words[0] in ("rtx", "gtx") else words[0]
    return None


def topology(labels: Mapping[str, str]) -> dict[str, str]:
    """Which domain the node is in at each level; ``gangline.dev/topology.LEVEL`` names a level of one's own."""
    known = {level: labels[label] for label, level in _TOPOLOGY_LABELS.items() if label in labels}
    own = {
        label.removeprefix(_TOPOLOGY_PREFIX): value
        for label, value in labels.items()
        if label.startswith(_TOPOLOGY_PREFIX)
    }
    return known | own
