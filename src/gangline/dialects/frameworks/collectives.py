"""JAX, XGBoost and PaddlePaddle: small sets of variables around one meeting point and a rank."""

from gangline.dialects.frameworks.team import Team
from gangline.model import ReplicaId, RoleName
from gangline.model.jobs.spec import LEAD_ROLES

_WORKER = RoleName("worker")


def jax_environment(team: Team, replica: ReplicaId) -> dict[str, str]:
    """What ``jax.distributed.initialize`` reads by itself, and the names JAXJob users read by hand."""
    if replica not in team.training:
        return {}
    host, port = team.addresses[team.lead]
    rank, size = str(team.training.index(replica)), str(len(team.training))
    return {
        "JAX_COORDINATOR_ADDRESS": team.endpoint(team.lead),
        "JAX_NUM_PROCESSES": size,
        "JAX_PROCESS_ID": rank,
        "COORDINATOR_ADDRESS": host,
        "COORDINATOR_PORT": str(port),
        "NUM_PROCESSES": size,
        "PROCESS_ID": rank,
    }


def xgboost_environment(team: Team, replica: ReplicaId) -> dict[str, str]:
    """The Rabit tracker runs beside the lead replica; LightGBM reads the list of workers."""
    if replica not in team.training:
        return {}
    host, port = team.addresses[team.lead]
    rank, size = str(team.training.index(replica)), str(len(team.training))
    environment = {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "RANK": rank,
        "WORLD_SIZE": size,
        "DMLC_TRACKER_URI": host,
        "DMLC_TRACKER_PORT": str(port),
        "DMLC_NUM_WORKER": size,
        "DMLC_TASK_ID": rank,
        "DMLC_ROLE": "worker",
    }
    workers = team.of_role(_WORKER)
    if len(team.training) > 1 and workers:
        environment["WORKER_ADDRS"] = ",".join(team.addresses[worker][0] for worker in workers)
        environment["WORKER_PORT"] = str(team.addresses[workers[0]][1])
    return environment


def paddle_environment(team: Team, replica: ReplicaId) -> dict[str, str]:
    """Parameter-server mode when the job has a master (it serves, the workers train), else collective mode."""
    if replica not in team.training:
        return {}
    environment = {
        "PADDLE_JOB_ID": team.spec.name,
        "PADDLE_NNODES": team.nodes,
        "PADDLE_MASTER": team.meeting_point(replica),
    }
    if team.lead.role in LEAD_ROLES:
        environment["PADDLE_SERVER_NUM" if replica.role == team.lead.role else "PADDLE_TRAINER_NUM"] = "1"
        return environment
    return environment | {
        "PADDLE_TRAINER_ID": str(team.training.index(replica)),
        "PADDLE_TRAINERS_NUM": str(len(team.training)),
        # Not PADDLE_TRAINER_ENDPOINTS: the launcher would put its first entry in the place of PADDLE_MASTER.
        "PADDLE_CURRENT_ENDPOINT": team.endpoint(replica),
    }
