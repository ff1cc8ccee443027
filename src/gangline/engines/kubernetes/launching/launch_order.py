"""In which order the pods of a gang come: MPI's workers before their launcher, and a replica's next after its last.

``mpirun`` asks for a worker's name once and has little patience with one that is still pulling its image; a DNS server
remembers for seconds that it did not know a name. So a launcher finds its workers running and their addresses in its
own ``/etc/hosts``. A replica that is started again in place finds its place taken as long as its last pod is not done.
The driver asks here what may be created now; nothing here creates anything.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from gangline.engines.kubernetes.launching.gang_state import GangState
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.node_rules.capacity import FINISHED_PHASES, occupies
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.engines.kubernetes.watch.pod_events import main_state
from gangline.kube import Pod
from gangline.model import Framework, Gang, GangReplica, JobSpec, ReplicaId, Restart, RoleName

_LAUNCHER = RoleName("launcher")

Pods = Mapping[ReplicaKey, Pod]
"""The pods of one attempt that exist."""


def startable(gang: Gang, missing: Sequence[GangReplica], pods: Pods) -> list[GangReplica]:
    """Return those of the missing replicas that may be created now; the others wait for other pods."""
    taken = {(key.replica, pod.spec.node_name) for key, pod in pods.items() if occupies(pod)}
    free = [replica for replica in missing if (replica.id, replica.node) not in taken]
    if workers_reachable(gang, pods):
        return free
    return [replica for replica in free if replica.id.role != _LAUNCHER]


def workers_reachable(gang: Gang, pods: Pods) -> bool:
    """Whether everything is there that a launcher needs; always true of gangs that are not MPI's.

    ``launcherCreationPolicy: WaitForWorkersReady`` asks for more than workers that run: they must be ready.
    """
    if gang.spec.framework is not Framework.MPI:
        return True
    workers = [pods.get(key) for key in _workers(gang)]
    if not all(pod is not None and _has_come_up(pod) for pod in workers):
        return False
    return not _wants_ready_workers(gang.spec) or all(pod is not None and _is_ready(pod) for pod in workers)


async def until_startable(state: GangState, view: ClusterView) -> bool:
    """Wait until one of the replicas that were left out may be created; False if its gang ends before that."""
    while state.gang is not None and not state.over:
        if startable(state.gang, state.deferred, view.pods_of(state.gang_id)):
            return True
        state.changed.clear()
        await state.changed.wait()
    return False


def lasting_addresses(gang: Gang, pods: Pods) -> dict[ReplicaId, str]:
    """Return the addresses of an MPI gang's workers that hold as long as their launcher lives.

    A worker that may be replaced while the others go on comes back with another address: its name is left to DNS, for
    ``/etc/hosts`` would hide the new one.
    """
    if gang.spec.framework is not Framework.MPI:
        return {}
    return {
        key.replica: pods[key].status.pod_ip
        for key in _workers(gang)
        if key in pods and pods[key].status.pod_ip and not _is_replaceable(gang.spec, key.replica.role)
    }


def _workers(gang: Gang) -> Iterable[ReplicaKey]:
    for replica in gang.replicas:
        if replica.id.role != _LAUNCHER:
            yield ReplicaKey(gang.id, replica.id, replica.incarnation)


def _is_replaceable(spec: JobSpec, role: RoleName) -> bool:
    return spec.role(role).elastic or spec.restart_of(role) is Restart.REPLICA or spec.is_endless(role)


def _wants_ready_workers(spec: JobSpec) -> bool:
    manifest = json.loads(spec.manifest_json or "{}").get("spec") or {}
    return manifest.get("launcherCreationPolicy") == "WaitForWorkersReady"


def _is_ready(pod: Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


def _has_come_up(pod: Pod) -> bool:
    """Whether a worker runs where it can be reached, or has ended: what that means is for the controller to decide."""
    state = main_state(pod)
    ended = state.terminated is not None or pod.status.phase in FINISHED_PHASES
    return ended or (state.running is not None and bool(pod.status.pod_ip))
