"""TrainJobs and runtimes as objects, with the status that Trainer's clients read. Pure.

No condition is written that can end again: while there is one, clients do not look at the pods and never say Running.
"""

import json
from typing import Any

from gangline.dialects.kubeflow import time_text
from gangline.model import Timestamp
from gangline.model.kinds.train_job import TrainerProgress, TrainJob, TrainJobStatus
from gangline.model.record import Record

Plain = dict[str, Any]

_STATES = ("ready", "succeeded", "failed", "active", "suspended")


def train_job_to_object(record: TrainJob) -> Plain:
    """Write a whole TrainJob."""
    return {**manifest_to_object(record), "status": train_job_to_status(record.status)}


def manifest_to_object(record: Record[Any, Any]) -> Plain:
    """Write what a user wrote, with what a server adds."""
    manifest = json.loads(record.spec.manifest_json)
    metadata = {
        **manifest["metadata"],
        "uid": str(record.id),
        "resourceVersion": str(max(record.version, 1)),
        "generation": 1,
        "creationTimestamp": time_text(record.created_at),
    }
    if record.tenant is not None:
        metadata["namespace"] = record.tenant
    return {**manifest, "metadata": metadata}


def train_job_to_status(status: TrainJobStatus) -> Plain:
    """Write how a TrainJob is doing."""
    found: Plain = {
        "conditions": _conditions(status),
        "jobsStatus": [
            {"name": each.name, **{state: int(_counts(each.state, state)) for state in _STATES}}
            for each in status.parts
        ],
    }
    if status.progress is not None:
        found["trainerStatus"] = _progress(status.progress)
    return found


def refused_status(message: str, at: Timestamp) -> Plain:
    """Say why a document is not run."""
    return {"conditions": [_condition("Failed", "InvalidSpec", message, at)]}


def _counts(state: str, counted: str) -> bool:
    """Whether a part counts there: one whose replicas are all ready is active too."""
    return state == counted or (state == "ready" and counted == "active")


def _conditions(status: TrainJobStatus) -> list[Plain]:
    if status.end is not None:
        kind = "Complete" if status.end.complete else "Failed"
        return [_condition(kind, status.end.reason, status.end.message, status.end.at)]
    if status.suspended_at is not None:
        return [_condition("Suspended", "Suspended", "the TrainJob is suspended", status.suspended_at)]
    return []


def _condition(kind: str, reason: str, message: str, at: Timestamp) -> Plain:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": time_text(at)}


def _progress(progress: TrainerProgress) -> Plain:
    found: Plain = {
        "lastUpdatedTime": time_text(progress.at),
        "metrics": [{"name": name, "value": f"{value:g}"} for name, value in progress.metrics],
    }
    if progress.share is not None:
        found["progressPercentage"] = int(progress.share * 100)
    if progress.remaining_seconds is not None:
        found["estimatedRemainingSeconds"] = progress.remaining_seconds
    return found
