"""Which gangs are themselves a record of where they were placed, and what their pods say of it. Pure.

The pod of a gang of one replica has the job, the attempt and the node in it: whoever finds the pod knows the placement.
Of several pods some may be missing, so a larger gang is on record before any of it is created.
"""

from collections.abc import Mapping

from gangline.dialects.kubeflow import kind_of
from gangline.engines.kubernetes.launching.removal import may_outlive
from gangline.engines.kubernetes.names import ReplicaKey, is_foreign
from gangline.kube import Pod
from gangline.lifecycle.events import GangFound
from gangline.model import Gang, GangId, NodeName, Timestamp

_BOUND_BY_OTHERS = "resourceClaims"
"""Whose template has these is bound by kube-scheduler, after it was created."""


def is_own_record(gang: Gang) -> bool:
    """Whether the placement of a gang can be read from its pods as soon as there are any."""
    spec = gang.spec
    if len(gang.replicas) != 1 or kind_of(spec) is not None or is_foreign(spec):
        return False  # names of Kubeflow's pods do not tell attempts apart
    return not any(_BOUND_BY_OTHERS in (role.pod_template_json or "") for role in spec.roles)


def gang_found(gang_id: GangId, pods: Mapping[ReplicaKey, Pod]) -> GangFound | None:
    """Read the placement of an attempt from its pods; None where they are none, or are left of a job that has ended."""
    if len(pods) != 1:
        return None
    ((key, pod),) = pods.items()
    made = pod.metadata.creation_timestamp
    if not pod.spec.node_name or key.incarnation or made is None or may_outlive(pod):
        return None
    return GangFound(
        job_id=gang_id.job_id,
        at=Timestamp(made.timestamp()),
        attempt=gang_id.attempt,
        placement={key.replica: NodeName(pod.spec.node_name)},
    )
