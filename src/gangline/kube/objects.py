"""The parts of Kubernetes objects that Gangline reads, as typed partial structs.

Unknown fields are skipped while decoding, which is what makes ten thousand pods cheap; so these structs are for
reading. An object that must be written back whole is written by patch or by server-side apply.
Quantities (``"500m"``, ``"1Gi"``) stay strings: whoever counts them decides the unit.
"""

from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec


class Partial(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A struct in Kubernetes' spelling that ignores what it does not know.

    ``gc=False`` holds because decoded JSON has no cycles, and sequences are tuples, of which the empty one is shared:
    together they keep the garbage collector out of a large list, which would otherwise take half the time.
    Subclasses repeat ``frozen=True`` for the type checker, which does not see it inherited.
    """


class OwnerReference(Partial, frozen=True):
    """Who an object belongs to; it is deleted with its owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(Partial, frozen=True):
    """What every object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Object(Partial, frozen=True):
    """Any object at all; the typed ones below inherit from it."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()


class GenericObject(Object, frozen=True):
    """An object whose spec and status the caller reads as plain JSON: custom resources, mostly."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


AnyObject = TypeVar("AnyObject", bound=Object)


class ListMetadata(Partial, frozen=True):
    """Where a list stands: its version, and where the next page begins."""

    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class ObjectList(Partial, Generic[AnyObject], frozen=True):
    """One page, or the joined pages, of a list."""

    metadata: ListMetadata = ListMetadata()
    items: list[AnyObject] | None = None


class Condition(Partial, frozen=True):
    """One condition of a node, pod or custom resource."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class ResourceRequirements(Partial, frozen=True):
    """What a container asks for and may not exceed."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class ContainerPort(Partial, frozen=True):
    """A port a container listens on; ``host_port`` takes a place on the node."""

    host_port: int = 0
    name: str = ""
    protocol: str = "TCP"


class Container(Partial, frozen=True):
    """One container of a pod."""

    name: str
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class Toleration(Partial, frozen=True):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class SelectorRequirement(Partial, frozen=True):
    """One expression of a selector, such as ``zone In (a, b)``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Partial, frozen=True):
    """Requirements that must all hold."""

    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Partial, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Partial, frozen=True):
    """A term that is worth ``weight`` when it holds."""

    weight: int = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Partial, frozen=True):
    """Which nodes a pod may or would rather run on."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Partial, frozen=True):
    """Node affinity, typed; affinity to other pods, as plain JSON."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: dict[str, Any] = {}
    pod_anti_affinity: dict[str, Any] = {}


class SchedulingGate(Partial, frozen=True):
    """Something that keeps a pod from being scheduled until it is removed."""

    name: str


class VolumeClaimReference(Partial, frozen=True):
    """Which claim a volume uses."""

    claim_name: str


class Volume(Partial, frozen=True):
    """A volume of a pod; of its many kinds only those that may tie the pod to a node are read."""

    name: str
    persistent_volume_claim: VolumeClaimReference | None = None
    ephemeral: dict[str, Any] | None = None


class ResourceClaimReference(Partial, frozen=True):
    """A device claim of a pod, by name or by the template it is made from."""

    name: str


class PodSpec(Partial, frozen=True):
    """What a pod asks for, as far as a scheduler cares."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str] = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[ResourceClaimReference, ...] = ()
    volumes: tuple[Volume, ...] = ()
    priority: int | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None


class ContainerWaiting(Partial, frozen=True):
    """Why a container has not started."""

    reason: str = ""
    message: str = ""


class ContainerRunning(Partial, frozen=True):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerTerminated(Partial, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Partial, frozen=True):
    """Exactly one of the three, or none before the kubelet has spoken."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Partial, frozen=True):
    """What the kubelet says of one container."""

    name: str
    ready: bool = False
    image_id: str = msgspec.field(name="imageID", default="")
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Partial, frozen=True):
    """What the kubelet says of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: datetime | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    """One replica's containers on one node."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(Partial, frozen=True):
    """What keeps pods away from a node."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Partial, frozen=True):
    """Whether and for whom a node is open."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(Partial, frozen=True):
    """One address of a node."""

    type: str
    address: str


class NodeStatus(Partial, frozen=True):
    """What a node offers and how it is."""

    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Node(Object, frozen=True):
    """One machine."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ObjectReference(Partial, frozen=True):
    """A pointer at another object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(Object, frozen=True):
    """Something that happened to an object, for people to read."""

    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    involved_object: ObjectReference = ObjectReference()
    last_timestamp: datetime | None = None


class LeaseSpec(Partial, frozen=True):
    """Who leads, and until when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: datetime | None = None


class Lease(Object, frozen=True):
    """The record that leader election is decided on."""

    spec: LeaseSpec = LeaseSpec()


class ConfigMap(Object, frozen=True):
    """Plain data; ``binary_data`` is base64 text."""

    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class ServicePort(Partial, frozen=True):
    """One port of a service."""

    port: int
    name: str = ""


class ServiceSpec(Partial, frozen=True):
    """Where a service leads; ``cluster_ip`` is ``"None"`` for a headless one."""

    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()


class Service(Object, frozen=True):
    """A stable name for pods."""

    spec: ServiceSpec = ServiceSpec()


class PriorityClass(Object, frozen=True):
    """A named priority."""

    value: int = 0
