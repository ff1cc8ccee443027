"""What becomes of pods of others, told as what happens to replicas. Pure.

Their owners decide what a failed pod means, so no end of one may take the others down. Every end is therefore told as
an exit that frees the pod's place, and only the last one says whether any of them failed: then nothing is left to stop.
"""

from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.watch.watched_pods import is_bound
from gangline.kube import Pod
from gangline.lifecycle.events import ReplicaExited, ReplicaStarted
from gangline.model import Timestamp

POD_GONE = "its pod is gone"


def start_of(key: ReplicaKey, pod: Pod, now: Timestamp) -> ReplicaStarted | None:
    """Say that a pod runs, or has run."""
    if not is_bound(pod) or pod.status.phase in ("", "Pending"):
        return None
    began = pod.status.start_time
    return ReplicaStarted(
        job_id=key.gang_id.job_id,
        at=Timestamp(began.timestamp()) if began is not None else now,
        attempt=key.gang_id.attempt,
        replica=key.replica,
        incarnation=key.incarnation,
    )


def end_of(pod: Pod, *, gone: bool) -> tuple[int, str] | None:
    """How a pod ended: its exit code, and what is known beyond it; None while it may still run."""
    if pod.status.phase == "Succeeded":
        return 0, ""
    if pod.status.phase == "Failed":
        return _failure(pod)
    return (0, POD_GONE) if gone else None


def exited(key: ReplicaKey, exit_code: int, message: str, now: Timestamp) -> ReplicaExited:
    """Say that a pod ended."""
    return ReplicaExited(
        job_id=key.gang_id.job_id,
        at=now,
        attempt=key.gang_id.attempt,
        replica=key.replica,
        incarnation=key.incarnation,
        exit_code=exit_code,
        message=message,
    )


def _failure(pod: Pod) -> tuple[int, str]:
    ended = [status.state.terminated for status in pod.status.container_statuses if status.state.terminated]
    code = next((each.exit_code for each in ended if each.exit_code), 1)
    said = pod.status.message or pod.status.reason or next((each.reason for each in ended if each.exit_code), "")
    return code, f"pod {pod.metadata.name} failed with {code}" + (f": {said}" if said else "")
