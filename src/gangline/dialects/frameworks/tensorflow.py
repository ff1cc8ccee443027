"""TensorFlow reads its cluster and its own place in it from ``TF_CONFIG``."""

import json

from gangline.dialects.frameworks.team import Team
from gangline.model import ReplicaId, RoleName

DYNAMIC_WORKERS = "GANGLINE_TF_DYNAMIC_WORKERS"
"""Set to 1: each worker is told of the servers and of itself only, so that workers may come and go."""

_CLUSTER_ROLES = tuple(RoleName(name) for name in ("chief", "master", "ps", "worker"))
"""An evaluator reads checkpoints and a TensorBoard reads logs: neither is part of the training cluster."""

_PS = RoleName("ps")
_WORKER = RoleName("worker")


def tensorflow_environment(team: Team, replica: ReplicaId) -> dict[str, str]:
    """``TF_CONFIG``, or nothing for a job of a single replica: TensorFlow then trains locally."""
    if len(team.ranked) == 1:
        return {}
    if team.user_setting(DYNAMIC_WORKERS) == "1" and replica.role in (_PS, _WORKER):
        cluster: dict[str, object] = dict(_sparse_cluster(team, replica))
    else:
        whole = team.cluster()
        cluster = {role: whole[role] for role in _CLUSTER_ROLES if role in whole}
    config = {"cluster": cluster, "task": {"type": replica.role, "index": replica.index}, "environment": "cloud"}
    return {"TF_CONFIG": json.dumps(config)}


def _sparse_cluster(team: Team, replica: ReplicaId) -> dict[str, object]:
    own = team.endpoint(replica)
    if replica.role == _PS:
        return {"worker": {}, "ps": [own]}
    return {"worker": {str(replica.index): own}, "ps": [team.endpoint(server) for server in team.of_role(_PS)]}
