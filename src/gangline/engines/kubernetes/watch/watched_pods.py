"""What is read of pods that name our scheduler, and the few questions everybody asks of them. Pure."""

from datetime import UTC, datetime

from gangline.engines.kubernetes.node_rules.capacity import FINISHED_PHASES
from gangline.kube import Partial, Pod, Resource
from gangline.kube.objects import PodSpec
from gangline.model import Timestamp


class SchedulingGroup(Partial, frozen=True):
    """The PodGroup of ``scheduling.k8s.io`` a pod belongs to (Kubernetes 1.36)."""

    pod_group_name: str = ""


class WorkloadReference(Partial, frozen=True):
    """The part of a Workload of ``scheduling.k8s.io`` a pod belongs to (Kubernetes 1.35)."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class WatchedPodSpec(PodSpec, frozen=True):
    """A pod's spec with what only a scheduler of gangs reads."""

    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None


class WatchedPod(Pod, frozen=True):
    """A pod as the engine watches it."""

    spec: WatchedPodSpec = WatchedPodSpec()


WATCHED_PODS = Resource(plural="pods", kind="Pod", type=WatchedPod)


def is_ended(pod: Pod) -> bool:
    """Whether nothing of the pod will run again."""
    return pod.status.phase in FINISHED_PHASES


def is_bound(pod: Pod) -> bool:
    """Whether the pod has its node."""
    return bool(pod.spec.node_name)


def moment_text(at: Timestamp) -> str:
    """A moment as Kubernetes writes it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def waits(pod: Pod) -> bool:
    """Whether the pod wants a node now: gates keep it from that, and so does its own deletion."""
    leaving = pod.metadata.deletion_timestamp is not None
    return not (is_bound(pod) or is_ended(pod) or leaving or pod.spec.scheduling_gates)


def runs(pod: Pod) -> bool:
    """Whether the pod has its node and may go on: it has not ended, and nobody has asked it to."""
    return is_bound(pod) and not is_ended(pod) and pod.metadata.deletion_timestamp is None
