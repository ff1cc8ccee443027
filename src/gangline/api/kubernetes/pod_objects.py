"""Replicas as pods, named and labelled as upstream's operator does it. Pure."""

import json

from gangline.api.kubernetes.job_objects import owner_reference, pod_kind_of
from gangline.api.kubernetes.plain import Plain, given, items, part, text, texts
from gangline.dialects.kubeflow import (
    JOB_ROLE_LABEL,
    REPLICA_INDEX_LABEL,
    Kind,
    replica_name,
    selector_labels,
    time_text,
)
from gangline.dialects.kubeflow.status import outlived
from gangline.dialects.trainer import PODS as TRAIN_JOB
from gangline.dialects.trainer import jobset_labels
from gangline.model import Clean, Job, Phase, ReplicaId, ReplicaState, ReplicaStatus, RoleName, Timestamp

_LAUNCHER = RoleName("launcher")
_MOST_DIGITS = 9
_KILLED = 137
"""The exit code of a container whose own nobody saw."""
_PHASES = {
    ReplicaState.PENDING: "Pending",
    ReplicaState.RUNNING: "Running",
    ReplicaState.BACKING_OFF: "Running",
    ReplicaState.SUCCEEDED: "Succeeded",
    ReplicaState.FAILED: "Failed",
    ReplicaState.LOST: "Failed",
}


def pod_name(job: Job, replica: ReplicaId) -> str:
    """Name a pod."""
    kind = pod_kind_of(job.spec)
    return replica_name(kind, job.name, replica) if kind is not None else f"{job.name}-{replica}"


def candidates(name: str) -> list[tuple[str, ReplicaId]]:
    """Which jobs and replicas a pod name may stand for, most likely first."""
    found = []
    head, _, tail = name.rpartition("-")
    if head and tail == _LAUNCHER:
        found.append((head, ReplicaId(_LAUNCHER, 0)))
    job, _, role = head.rpartition("-")
    if job and role and tail.isascii() and tail.isdigit() and len(tail) <= _MOST_DIGITS:
        found.append((job, ReplicaId(RoleName(role), int(tail))))
    return found


def pods_of(job: Job) -> list[Plain]:
    """Every pod of a job that is there now: none while it waits, and of a finished job what its clean-up left."""
    kind = pod_kind_of(job.spec)
    if kind is None or not (job.holding or job.finished):
        return []
    clean = job.spec.policy.clean
    if job.finished and clean is Clean.ALL:
        return []
    # What was running at the end is what policy Running removes.
    tidied = job.finished and clean is Clean.RUNNING
    return [pod_to_object(job, kind, status) for status in job.replicas if not (tidied and outlived(job, status))]


def pod_to_object(job: Job, kind: Kind, status: ReplicaStatus) -> Plain:
    """Write one pod."""
    template = json.loads(job.spec.role(status.id.role).pod_template_json or "{}")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(job, kind, status, template),
        "spec": {**part(template, "spec"), "nodeName": status.node},
        "status": _status(job, kind, status, template),
    }


def _metadata(job: Job, kind: Kind, status: ReplicaStatus, template: Plain) -> Plain:
    labels = {
        **texts(template, "metadata", "labels"),
        **selector_labels(job.name, kind, status.id.role),
        REPLICA_INDEX_LABEL: str(status.id.index),
    }
    if kind is TRAIN_JOB:
        labels |= jobset_labels(job.name, status.id)
    if status.id == ReplicaId(job.spec.lead_role, 0):
        labels[JOB_ROLE_LABEL] = "master"
    return given(
        {
            "name": pod_name(job, status.id),
            "namespace": job.spec.tenant,
            "uid": f"{job.id}-{job.attempt}-{status.id}",
            "resourceVersion": str(job.version),
            "creationTimestamp": time_text(_created(job)),
            "labels": labels,
            "annotations": texts(template, "metadata", "annotations") or None,
            "ownerReferences": [owner_reference(job, kind)],
        }
    )


def _created(job: Job) -> Timestamp:
    """When the pods of the present attempt were made: its gang was placed."""
    return next((entry.at for entry in reversed(job.history) if entry.phase is Phase.STARTING), job.created_at)


def _status(job: Job, kind: Kind, status: ReplicaStatus, template: Plain) -> Plain:
    phase = _phase(job, status)
    running = phase == "Running" and status.state is ReplicaState.RUNNING
    placed = time_text(_created(job))
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": placed},
        {"type": "Ready", "status": str(running), "lastTransitionTime": placed},
    ]
    return given(
        {
            "phase": phase,
            "startTime": placed,
            "message": status.message or None,
            "hostIP": "127.0.0.1",
            "conditions": conditions,
            "containerStatuses": [_container(job, kind, status, template, ready=running)],
        }
    )


def _phase(job: Job, status: ReplicaStatus) -> str:
    """What was still running when its job ended was stopped by us: it shares the job's fate, as upstream counts it."""
    if job.finished and outlived(job, status):
        return "Succeeded" if job.phase is Phase.COMPLETED else "Failed"
    return _PHASES[status.state]


def _container(job: Job, kind: Kind, status: ReplicaStatus, template: Plain, *, ready: bool) -> Plain:
    containers = items(template, "spec", "containers")
    names = [text(container, "name") for container in containers]
    main = names.index(kind.container) if kind.container in names else 0
    image = text(containers[main], "image") if containers else None
    return {
        "name": (names[main] if names else None) or kind.container or "main",
        "image": image or "",
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": status.incarnation,
        "state": _container_state(job, status),
        "lastState": {},
    }


def _container_state(job: Job, status: ReplicaStatus) -> Plain:
    phase = _phase(job, status)
    if status.state is ReplicaState.BACKING_OFF and phase == "Running":
        return {"waiting": {"reason": "CrashLoopBackOff", "message": status.message}}
    if phase == "Pending":
        return {"waiting": {"reason": "ContainerCreating"}}
    started = None if status.started_at is None else time_text(status.started_at)
    if phase == "Running":
        return {"running": given({"startedAt": started})}
    ended = status.finished_at or job.finished_at
    return {
        "terminated": given(
            {
                "exitCode": 0 if phase == "Succeeded" else status.exit_code or _KILLED,
                "reason": "Completed" if phase == "Succeeded" else "Error",
                "message": status.message or None,
                "startedAt": started,
                "finishedAt": None if ended is None else time_text(ended),
            }
        )
    }
