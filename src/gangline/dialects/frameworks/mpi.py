"""MPI launchers (Open MPI, Intel MPI, MPICH): where the hostfile is, how to reach a host, and the hostfile itself."""

from collections.abc import Mapping
from enum import StrEnum

from gangline.dialects.frameworks.team import Address, Team
from gangline.model import JobSpec, ReplicaId

SLOTS = "GANGLINE_MPI_SLOTS"
"""Ranks per worker; part of a job's own environment, as the model has no field for it."""
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
    given = spec.env.get(SLOTS, "1")
    return int(given) if given.isascii() and given.isdigit() else 1


def hostfile(
    spec: JobSpec,
    addresses: Mapping[ReplicaId, Address],
    *,
    slots: int | None = None,
    implementation: Implementation | None = None,
) -> str:
    """Write the hostfile: one line per worker, in rank order."""
    flavour = implementation or Implementation(spec.env.get(IMPLEMENTATION, Implementation.OPEN_MPI))
    per_host = slots_per_worker(spec) if slots is None else slots
    team = Team.of(spec, addresses)
    hosts = team.training if spec.env.get(LAUNCHER_WORKS) == "1" else team.hosts
    form = "{host} slots={slots}\n" if flavour is Implementation.OPEN_MPI else "{host}:{slots}\n"
    return "".join(form.format(host=addresses[replica][0], slots=per_host) for replica in hosts)
