"""Finds pods that still take their place on a node though the record of their job counts on them no longer.

A program's end, or a gang that was made smaller, is on record before the kubelet has released what the pod held; until
the pod's phase is final, or the pod is gone, a kubelet refuses whoever comes after it. Asked before every scheduling
cycle, so only gangs that changed are looked at again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.node_rules.capacity import occupies
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.kube import Pod
from gangline.model import GangId, Job, JobId, NodeName, ReplicaState, ReplicaStatus
from gangline.scheduling import terminating_gang
from gangline.scheduling.gangs.holdings import HOLDING_STATES


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found of one attempt, and from which record and which state of its pods."""

    job: Job
    gang_id: GangId
    change: int
    found: Job | None


class Terminating:
    """Remembers what it found of each attempt, by its record and the last change of its pods."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._known: dict[JobId, _Known] = {}

    def of(self, jobs: Collection[Job]) -> list[Job]:
        """Return, for every job of which something is terminating, a gang that holds just that."""
        known, last_change_of = self._known, self._view.last_change_of
        found = []
        for job in jobs:
            if not job.holding:
                continue
            each = known.get(job.id)
            if each is None or each.job is not job or each.change != last_change_of(each.gang_id):
                each = known[job.id] = self._look(job)
            if each.found is not None:
                found.append(each.found)
        if len(known) > 2 * len(jobs):
            present = {job.id for job in jobs}
            self._known = {job_id: each for job_id, each in known.items() if job_id in present}
        return found

    def _look(self, job: Job) -> _Known:
        gang_id = job.gang_id
        replicas = uncounted(job, self._view.pods_of(gang_id))
        found = terminating_gang(job, replicas) if replicas else None
        return _Known(job, gang_id, self._view.last_change_of(gang_id), found)


def uncounted(job: Job, pods: Mapping[ReplicaKey, Pod]) -> tuple[ReplicaStatus, ...]:
    """Return the replicas whose pods occupy a node and which the job's record does not count as doing so. Pure."""
    counted = {(status.id, status.incarnation) for status in job.replicas if status.state in HOLDING_STATES}
    roles = {role.name for role in job.spec.roles}
    return tuple(
        ReplicaStatus(
            id=key.replica,
            node=NodeName(pod.spec.node_name),
            state=ReplicaState.RUNNING,
            incarnation=key.incarnation,
        )
        for key, pod in pods.items()
        if occupies(pod) and (key.replica, key.incarnation) not in counted and key.replica.role in roles
    )
