"""Finds pods that still take their place on a node though the record of their job counts on them no longer.

A program's end, or a gang that was made smaller, is on record before the kubelet has released what the pod held; until
the pod's phase is final, or the pod is gone, a kubelet refuses whoever comes after it. Asked before every scheduling
cycle, so only gangs that changed are looked at again.
"""

from collections.abc import Collection, Mapping

from gangline.engines.kubernetes.capacity import occupies
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.watch import ClusterView
from gangline.kube import Pod
from gangline.model import GangId, Job, NodeName, ReplicaState, ReplicaStatus
from gangline.scheduling import terminating_gang
from gangline.scheduling.holdings import HOLDING_STATES

_Known = tuple[Job, int, Job | None]


class Terminating:
    """Remembers what it found of each attempt, by its record and the last change of its pods."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._known: dict[GangId, _Known] = {}

    def of(self, jobs: Collection[Job]) -> list[Job]:
        """Return, for every job of which something is terminating, a gang that holds just that."""
        known = self._known
        self._known = {job.gang_id: self._look(job, known.get(job.gang_id)) for job in jobs if job.holding}
        return [found for _, _, found in self._known.values() if found is not None]

    def _look(self, job: Job, known: _Known | None) -> _Known:
        change = self._view.last_change_of(job.gang_id)
        if known is not None and known[0] is job and known[1] == change:
            return known
        replicas = uncounted(job, self._view.pods_of(job.gang_id))
        return job, change, terminating_gang(job, replicas) if replicas else None


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
