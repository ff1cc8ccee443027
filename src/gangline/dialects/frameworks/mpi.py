"""MPI launchers (Open MPI, Intel MPI, MPICH): where the hostfile is, how to reach a host, and the hostfile itself."""

from collections.abc import Mapping
from enum import StrEnum

from gangline.dialects.frameworks.team import Address, Team
from gangline.model import JobSpec, ReplicaId

IMPLEMENTATION = "GANGLINE_MPI_IMPLEMENTATION"
LAUNCHER_WORKS = "GANGLINE_MPI_LAUNCHER_WORKS"
"""Set to 1: the launcher takes ranks too."""


class Implementation(StrEnum):
    """Whose ``mpirun`` reads the hostfile."""

    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


def mpi_environment(hostfile_path: str | None, remote_shell: str | None) -> dict[str, str]:
    """Point every launcher at the hostfile and at the program that starts a process on a host.

    All three dialects of the same two facts are set: which ``mpirun`` the user has is not known here. Open MPI
    up to 4 reads ``OMPI_MCA_*``, from 5 on it is PRRTE that reads ``PRTE_MCA_*``.
    """
    environment: dict[str, str] = {}
    if hostfile_path is not None:
        environment |= {
            "OMPI_MCA_orte_default_hostfile": hostfile_path,
            "PRTE_MCA_prte_default_hostfile": hostfile_path,
            "I_MPI_HYDRA_HOST_FILE": hostfile_path,
            "HYDRA_HOST_FILE": hostfile_path,
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        }
    if remote_shell is not None:
        environment |= {
            "OMPI_MCA_plm_rsh_agent": remote_shell,
            "PRTE_MCA_plm_ssh_agent": remote_shell,
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": remote_shell,
            "HYDRA_LAUNCHER_EXEC": remote_shell,
        }
    return environment


def slots_per_worker(spec: JobSpec) -> int:
    """How many ranks each worker takes: what the job says, else one."""
    return spec.processes if isinstance(spec.processes, int) else 1


def launcher_works(spec: JobSpec) -> bool:
    """Whether the launcher takes ranks itself, and so is a host among the others."""
    return spec.env.get(LAUNCHER_WORKS) == "1"


def hostfile(
    spec: JobSpec,
    addresses: Mapping[ReplicaId, Address],
    *,
    implementation: Implementation | None = None,
) -> str:
    """Write the hostfile: one line per worker, in rank order."""
    flavour = implementation or Implementation(spec.env.get(IMPLEMENTATION, Implementation.OPEN_MPI))
    slots = slots_per_worker(spec)
    team = Team.of(spec, addresses)
    hosts = team.training if launcher_works(spec) else team.hosts
    form = "{host} slots={slots}\n" if flavour is Implementation.OPEN_MPI else "{host}:{slots}\n"
    return "".join(form.format(host=addresses[replica][0], slots=slots) for replica in hosts)
