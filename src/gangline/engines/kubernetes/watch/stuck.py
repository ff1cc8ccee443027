"""Finds out why a pod does not start when its status does not say: volumes that cannot be mounted, mostly."""

import logging
from collections.abc import Iterable

from gangline.engines.kubernetes.refusals import Refusal
from gangline.kube import EVENTS, Event, KubeClient, KubeError, Pod
from gangline.model import Timestamp

_log = logging.getLogger(__name__)
_PATIENCE_SECONDS = 8.0
_TRIES = 3
"""How often a kubelet must have failed at the same thing: it tries again by itself, and some things are only late."""
_TELLING = {
    "FailedMount": "VolumeUnavailable",
    "FailedAttachVolume": "VolumeUnavailable",
    "FailedMapVolume": "VolumeUnavailable",
    "FailedCreatePodSandBox": "SandboxFailed",
    "FailedScheduling": "DevicesUnavailable",
}
_SAID_ONCE = frozenset({"FailedScheduling"})
"""What is said when it becomes true, and not again with every try."""
_MERELY_LATE = "cache: timed out waiting for the condition"
"""The kubelet has not heard of a ConfigMap or Secret yet, as happens on a busy node; of a missing one it says so."""


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
    return reason_told(found.items or ())


def reason_told(warnings: Iterable[Event]) -> Refusal | None:
    """Return the last of a pod's warnings that means it will not start by itself."""
    telling = [
        event
        for event in warnings
        if event.reason in _TELLING
        and (event.reason in _SAID_ONCE or (event.count or 1) >= _TRIES)
        and _MERELY_LATE not in event.message
    ]
    if not telling:
        return None
    last = max(telling, key=lambda event: event.last_timestamp.timestamp() if event.last_timestamp else 0.0)
    return Refusal(reason=_TELLING[last.reason], message=last.message, permanent=False)
