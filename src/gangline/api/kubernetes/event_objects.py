"""A job's journal as events: those of the job itself, and those of its pods. Pure."""

from collections.abc import Iterator, Sequence

from gangline.api.kubernetes.job_objects import version_and_uid
from gangline.api.kubernetes.plain import Plain
from gangline.api.kubernetes.pod_objects import pod_name
from gangline.dialects.kubeflow import Kind, time_text
from gangline.model import Job, JournalRecord

_WARNINGS = frozenset({"ReplicaFailed", "ReplicaLost", "ReplicaBackingOff", "DeadlineExceeded"})
_STARTED = "ReplicaStarted"


def job_to_events(job: Job, kind: Kind, journal: Sequence[JournalRecord]) -> Iterator[Plain]:
    """Write every event, oldest first."""
    for record in journal:
        if record.replica is None:
            yield _event(job, kind, record, record.reason, record.message or record.phase.value)
            continue
        pod = pod_name(job, record.replica)
        if record.reason == _STARTED:
            yield _event(job, kind, record, "SuccessfulCreatePod", f"Created pod: {pod}")
        yield _event(job, kind, record, record.reason, record.message, pod=pod)


def _event(job: Job, kind: Kind, record: JournalRecord, reason: str, message: str, *, pod: str | None = None) -> Plain:
    name = pod or job.name
    at = time_text(record.at)
    version, uid = version_and_uid(job, kind)
    involved = {
        "apiVersion": "v1" if pod else version,
        "kind": "Pod" if pod else kind.name,
        "name": name,
        "namespace": job.spec.tenant,
        "uid": f"{job.id}-{job.attempt}-{record.replica}" if pod else uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{name}.{record.number:x}.{reason.lower()}",
            "namespace": job.spec.tenant,
            "uid": f"{job.id}-{record.number}-{reason}",
            "resourceVersion": str(record.number),
            "creationTimestamp": at,
        },
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "type": "Warning" if reason in _WARNINGS or record.phase == "FAILED" else "Normal",
        "source": {"component": kind.controller},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
