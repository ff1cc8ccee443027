"""What upstream's operator wrote into a status before Gangline took over. Pure.

A job that had ended there has ended: its work is not done again. A job that ran there is taken over with its pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gangline.dialects.kubeflow import REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from gangline.kube import Pod
from gangline.model import (
    Job,
    NodeName,
    Phase,
    PhaseEntry,
    ReplicaId,
    ReplicaState,
    ReplicaStatus,
    RoleName,
    Timestamp,
)

_ENDS = {"Succeeded": Phase.COMPLETED, "Failed": Phase.FAILED}
_BEGUN = frozenset({"Running", "Restarting"})


def began_elsewhere(status: Mapping[str, Any]) -> bool:
    """Whether another operator had begun to run the job."""
    return any(_holds(condition) and condition.get("type") in _BEGUN for condition in _conditions(status))


def ended_elsewhere(job: Job, status: Mapping[str, Any]) -> Job | None:
    """Return the job as it ended under another operator; None if it did not."""
    for condition in _conditions(status):
        phase = _ENDS.get(str(condition.get("type")))
        if phase is None or not _holds(condition):
            continue
        ended = _time(status.get("completionTime")) or _time(condition.get("lastTransitionTime")) or job.created_at
        entry = PhaseEntry(
            phase=phase,
            at=Timestamp(max(ended, job.created_at)),
            reason="EndedBefore",
            message=str(condition.get("message") or ""),
        )
        return replace(
            job,
            history=(*job.history, entry),
            started_at=_time(status.get("startTime")),
            finished_at=entry.at,
            exit_code=0 if phase is Phase.COMPLETED else 1,
        )
    return None


def taken_over(job: Job, pods: Iterable[Pod], status: Mapping[str, Any]) -> Job | None:
    """Return the job as it runs in another operator's pods; None unless every replica has one with a node.

    A gang of which a part is missing is started anew instead: nobody could say where the missing part belongs.
    """
    found = dict(entry for pod in pods if (entry := _replica(job, pod)) is not None)
    wanted = [ReplicaId(role.name, index) for role in job.spec.roles for index in range(role.replicas)]
    if any(replica not in found for replica in wanted):
        return None
    replicas = tuple(found[replica] for replica in wanted)
    began = _time(status.get("startTime")) or job.created_at
    steps = [Phase.STARTING]
    if all(replica.state is ReplicaState.RUNNING for replica in replicas):
        steps.append(Phase.PROCESSING)
    message = "found running under another operator"
    limit = job.spec.policy.deadline_seconds
    return replace(
        job,
        history=(
            *job.history,
            *(PhaseEntry(phase=step, at=began, reason="TakenOver", message=message) for step in steps),
        ),
        attempt=1,
        holding=True,
        replicas=replicas,
        started_at=began,
        deadline_at=None if limit is None else Timestamp(began + limit),
    )


def _replica(job: Job, pod: Pod) -> tuple[ReplicaId, ReplicaStatus] | None:
    labels = pod.metadata.labels
    role, index = RoleName(labels.get(REPLICA_TYPE_LABEL, "").lower()), labels.get(REPLICA_INDEX_LABEL, "0")
    known = any(each.name == role for each in job.spec.roles)
    if not known or not index.isdigit() or not pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
        return None
    replica = ReplicaId(role, int(index))
    started = pod.status.start_time
    if pod.status.phase == "Pending" or started is None:
        return replica, ReplicaStatus(id=replica, node=NodeName(pod.spec.node_name))
    status = ReplicaStatus(
        id=replica,
        node=NodeName(pod.spec.node_name),
        state=ReplicaState.RUNNING,
        started_at=Timestamp(started.timestamp()),
    )
    return replica, status


def _conditions(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    conditions = status.get("conditions")
    return [each for each in conditions if isinstance(each, Mapping)] if isinstance(conditions, list) else []


def _holds(condition: Mapping[str, Any]) -> bool:
    return condition.get("status") == "True"


def _time(text: object) -> Timestamp | None:
    if not isinstance(text, str):
        return None
    try:
        return Timestamp(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None
