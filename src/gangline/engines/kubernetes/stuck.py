"""Finds out why a pod does not start when its status does not say: volumes that cannot be mounted, mostly."""

from gangline.engines.kubernetes.refusals import Refusal
from gangline.kube import EVENTS, KubeClient, Pod
from gangline.model import Timestamp

_PATIENCE_SECONDS = 8.0
_TELLING = {
    "FailedMount": "VolumeUnavailable",
    "FailedAttachVolume": "VolumeUnavailable",
    "FailedMapVolume": "VolumeUnavailable",
    "FailedCreatePodSandBox": "SandboxFailed",
    "FailedScheduling": "DevicesUnavailable",
}


async def stuck_reason(client: KubeClient, pod: Pod, *, now: Timestamp) -> Refusal | None:
    """Say what a pod waits for in vain; None while it may still start."""
    created = pod.metadata.creation_timestamp
    if pod.status.phase != "Pending" or created is None or now - created.timestamp() < _PATIENCE_SECONDS:
        return None
    found = await client.list(
        EVENTS, namespace=pod.metadata.namespace, fields={"involvedObject.uid": pod.metadata.uid, "type": "Warning"}
    )
    telling = [event for event in found.items or () if event.reason in _TELLING]
    if not telling:
        return None
    last = max(telling, key=lambda event: event.last_timestamp or created)
    return Refusal(reason=_TELLING[last.reason], message=last.message, permanent=False)
