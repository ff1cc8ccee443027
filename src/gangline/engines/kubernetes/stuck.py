"""Finds out why a pod does not start when its status does not say: volumes that cannot be mounted, mostly."""

import logging

from gangline.engines.kubernetes.refusals import Refusal
from gangline.kube import EVENTS, KubeClient, KubeError, Pod
from gangline.model import Timestamp

_log = logging.getLogger(__name__)
_PATIENCE_SECONDS = 8.0
_TELLING = {
    "FailedMount": "VolumeUnavailable",
    "FailedAttachVolume": "VolumeUnavailable",
    "FailedMapVolume": "VolumeUnavailable",
    "FailedCreatePodSandBox": "SandboxFailed",
    "FailedScheduling": "DevicesUnavailable",
}


async def stuck_reason(client: KubeClient, pod: Pod, *, now: Timestamp) -> Refusal | None:
    """Say what a pod waits for in vain; None while it may still start, or nobody can say."""
    created = pod.metadata.creation_timestamp
    if pod.status.phase != "Pending" or created is None or now - created.timestamp() < _PATIENCE_SECONDS:
        return None
    fields = {"involvedObject.uid": pod.metadata.uid, "type": "Warning"}
    try:
        found = await client.list(EVENTS, namespace=pod.metadata.namespace, fields=fields)
    except KubeError as error:
        _log.debug("the events of %s cannot be read: %s", pod.metadata.name, error)
        return None
    telling = [event for event in found.items or () if event.reason in _TELLING]
    if not telling:
        return None
    last = max(telling, key=lambda event: event.last_timestamp or created)
    return Refusal(reason=_TELLING[last.reason], message=last.message, permanent=False)
