"""PyTorch: what ``init_process_group`` and ``torchrun`` (its ``PET_*`` variables) read."""

from gangline.dialects.frameworks.team import Team
from gangline.model import ReplicaId

PROCESSES_PER_NODE = "PET_NPROC_PER_NODE"
RENDEZVOUS_BACKEND = "PET_RDZV_BACKEND"


def pytorch_environment(team: Team, replica: ReplicaId) -> dict[str, str]:
    """The variables of one training replica; service replicas take no part in the process group and get none."""
    if replica not in team.training:
        return {}
    host, port = team.addresses[team.lead]
    rank = str(team.training.index(replica))
    environment = {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "RANK": rank,
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(len(team.training) * _processes_per_node(team)),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": str(port),
        "PET_NODE_RANK": rank,
        "PET_NNODES": team.nodes,
    }
    if team.spec.processes is not None:
        environment[PROCESSES_PER_NODE] = str(team.spec.processes)
    if team.elastic or team.user_setting(RENDEZVOUS_BACKEND):
        environment |= {
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": team.endpoint(team.lead),
            "PET_RDZV_ID": team.spec.name,
        }
    return environment


def _processes_per_node(team: Team) -> int:
    """How many processes torchrun starts per replica; words such as ``auto`` are settled there, and count as one."""
    given = team.user_setting(PROCESSES_PER_NODE) or str(team.spec.processes)
    return int(given) if given.isascii() and given.isdigit() else 1
