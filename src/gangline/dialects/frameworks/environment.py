"""The environment of one replica: our own variables, the framework's, then the user's, who always has the last word."""

from collections.abc import Callable, Mapping

from gangline.dialects.frameworks.collectives import jax_environment, paddle_environment, xgboost_environment
from gangline.dialects.frameworks.mpi import mpi_environment
from gangline.dialects.frameworks.pytorch import pytorch_environment
from gangline.dialects.frameworks.team import Address, Team
from gangline.dialects.frameworks.tensorflow import tensorflow_environment
from gangline.model import Framework, JobSpec, ReplicaId, RoleName

_FRAMEWORKS: Mapping[Framework, Callable[[Team, ReplicaId], dict[str, str]]] = {
    Framework.TENSORFLOW: tensorflow_environment,
    Framework.PYTORCH: pytorch_environment,
    Framework.JAX: jax_environment,
    Framework.XGBOOST: xgboost_environment,
    Framework.PADDLE: paddle_environment,
}
_SERVERS = RoleName("ps")


def replica_environment(
    spec: JobSpec,
    replica: ReplicaId,
    *,
    addresses: Mapping[ReplicaId, Address],
    hostfile_path: str | None = None,
    remote_shell: str | None = None,
    secret_path: str | None = None,
) -> dict[str, str]:
    """Return every variable that tells a replica who it is and where its peers are.

    ``addresses`` holds the present replicas of the gang, this one included. ``hostfile_path`` and
    ``remote_shell`` matter to MPI only: where the engine put the hostfile, and its program that runs a command on
    a host. ``secret_path`` is where it put the secret of a job that ``shares_secret``.
    """
    team = Team.of(spec, addresses)
    return team_environment(
        team, replica, hostfile_path=hostfile_path, remote_shell=remote_shell, secret_path=secret_path
    )


def shares_secret(spec: JobSpec) -> bool:
    """Whether the job's replicas must be able to prove to each other that they are of one job: it has a role ``ps``."""
    return any(role.name == _SERVERS for role in spec.roles)


def team_environment(
    team: Team,
    replica: ReplicaId,
    *,
    hostfile_path: str | None = None,
    remote_shell: str | None = None,
    secret_path: str | None = None,
) -> dict[str, str]:
    """Return what ``replica_environment`` does, of one of many replicas of a team."""
    spec = team.spec
    environment = _own(team, replica)
    if secret_path and shares_secret(spec):
        environment["GANGLINE_SECRET_FILE"] = secret_path
    if spec.framework is Framework.MPI:
        environment |= mpi_environment(hostfile_path, remote_shell)
    elif spec.framework in _FRAMEWORKS:
        environment |= _FRAMEWORKS[spec.framework](team, replica)
    return environment | dict(spec.env) | dict(spec.role(replica.role).env)


def _own(team: Team, replica: ReplicaId) -> dict[str, str]:
    return {
        "GANGLINE_ROLE": replica.role,
        "GANGLINE_INDEX": str(replica.index),
        "GANGLINE_RANK": str(team.ranks[replica]),
        "GANGLINE_WORLD_SIZE": str(len(team.training)),
        "GANGLINE_CLUSTER": team.cluster_text,
        "GANGLINE_ADDRESS": team.endpoint(replica),
        # Without it Python holds its output back until a block is full, and logs appear long after the fact.
        "PYTHONUNBUFFERED": "1",
    }
