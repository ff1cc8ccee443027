"""What an MPIJob needs besides its pods: the hostfile, and a way to reach the workers. Pure, but for the keys.

``v2beta1`` logs in by ssh with a key made for the job, as upstream does it; the images bring the server. ``v1`` has no
server in its images: where upstream downloads kubectl into the launcher and lets it enter pods, Gangline's remote shell
runs around the workers' command, which needs a Python in the image and no right to enter anything.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gangline.dialects.frameworks import Implementation, hostfile, slots_per_worker
from gangline.dialects.frameworks.mpi import IMPLEMENTATION, launcher_works, mpi_environment
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.kubeflow_pods import LAUNCHER, KubeflowGang, kubeflow_pods, kubeflow_recipe
from gangline.engines.kubernetes.manifests.mpi.host_aliases import with_host_aliases
from gangline.engines.kubernetes.manifests.mpi.remote_shell import PROGRAM, shell_name, shell_secret, shell_staging
from gangline.engines.kubernetes.manifests.mpi.ssh_keys import new_key_pair
from gangline.engines.kubernetes.manifests.pod import Plain, Recipe, config_map, joined
from gangline.engines.kubernetes.names import Part
from gangline.model import GangReplica, ReplicaId

FOLDER = "/etc/mpi"
_LOOPBACK = "127.0.0.1"
_ROOT_SSH = "/root/.ssh"
_SSH_ITEMS = (
    {"key": "ssh-privatekey", "path": "id_rsa"},
    {"key": "ssh-publickey", "path": "id_rsa.pub"},
    {"key": "ssh-publickey", "path": "authorized_keys"},
)
_ENVIRONMENT: dict[Implementation, dict[str, str]] = {
    Implementation.OPEN_MPI: {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": f"{FOLDER}/hostfile",
        "PRTE_MCA_prte_default_hostfile": f"{FOLDER}/hostfile",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    },
    Implementation.INTEL: {
        "I_MPI_HYDRA_HOST_FILE": f"{FOLDER}/hostfile",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
    },
    Implementation.MPICH: {
        "HYDRA_HOST_FILE": f"{FOLDER}/hostfile",
        "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
    },
}


def config_name(job: KubeflowGang) -> str:
    """The name of the ConfigMap with the hostfile."""
    return f"{job.gang.spec.name}-config"


def _job_name(job: KubeflowGang) -> str:
    """Name what no other job may have: a Secret is never looked into, so nobody could tell whose it is."""
    return names.job_name(job.gang.spec.name, job.gang.id.job_id)


def config(job: KubeflowGang) -> Plain:
    """Write the ConfigMap: the hostfile, and the script that elastic launchers ask for it."""
    spec = job.gang.spec
    hosts = hostfile(spec, job.addresses)
    slots = slots_per_worker(spec)
    workers = [job.addresses[replica.id][0] for replica in job.gang.replicas if replica.id.role != LAUNCHER]
    discover = "#!/bin/sh\n" + "".join(f"echo {host}:{slots}\n" for host in workers)
    metadata = job.metadata(config_name(job), job.shared_labels(Part.HOSTS))
    return config_map(metadata, {"hostfile": hosts, "discover_hosts.sh": discover})


def secret(job: KubeflowGang) -> Plain:
    """Write the Secret by which the launcher reaches the workers: a key pair, or the remote shell and its token."""
    if not job.second_mpi:
        return shell_secret(job.metadata(shell_name(_job_name(job)), job.shared_labels(Part.HOSTS)))
    private, public = new_key_pair()
    encoded = {"ssh-privatekey": private, "ssh-publickey": public}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": job.metadata(f"{_job_name(job)}-ssh", job.shared_labels(Part.HOSTS)),
        "type": "kubernetes.io/ssh-auth",
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in encoded.items()},
    }


def mpi_pods(job: KubeflowGang, replicas: Sequence[GangReplica]) -> Iterator[Plain]:
    """Write the pods of some replicas of an MPIJob; a launcher's knows the names of its workers."""
    for replica, pod in zip(replicas, kubeflow_pods(job, replicas, _mpi_recipe), strict=True):
        known = dict(job.lasting_addresses)
        if launcher_works(job.gang.spec):
            # The hostfile names the launcher, which would else wait until a DNS server has heard of it.
            known[replica.id] = _LOOPBACK
        yield with_host_aliases(pod, replica.id, job.addresses, known)


def _mpi_recipe(job: KubeflowGang, replica: GangReplica, template: Plain) -> Recipe:
    """Add to a pod its name in the job's service, its role and what its version mounts."""
    recipe = kubeflow_recipe(job, replica, template)
    volumes, mounts = _volumes(job, replica.id)
    environment = [{"name": name, "value": value} for name, value in _variables(job, replica.id).items()]
    return replace(
        recipe,
        fixed={"hostname": recipe.metadata["name"], "subdomain": job.gang.spec.name},
        variables=joined(environment, recipe.variables),
        volumes=volumes,
        mounts=mounts,
        finish=lambda given: _commanded(job, replica.id, recipe.finish(given)),
    )


def _commanded(job: KubeflowGang, replica: ReplicaId, container: Plain) -> Plain:
    if replica.role == LAUNCHER:
        return container
    if "command" not in container and "args" not in container:
        container["command"] = ["/usr/sbin/sshd", "-De"] if job.second_mpi else ["sleep", "365d"]
    if not job.second_mpi and "command" in container:
        container["command"] = [PROGRAM, "serve", *container["command"]]
    return container


def _variables(job: KubeflowGang, replica: ReplicaId) -> dict[str, str]:
    if replica.role != LAUNCHER:
        return {"K_MPI_JOB_ROLE": "worker"}
    if not job.second_mpi:
        return {"K_MPI_JOB_ROLE": "launcher", **mpi_environment(f"{FOLDER}/hostfile", PROGRAM)}
    implementation = Implementation(job.gang.spec.env.get(IMPLEMENTATION, Implementation.OPEN_MPI))
    return {"K_MPI_JOB_ROLE": "launcher", **_ENVIRONMENT[implementation]}


def _volumes(job: KubeflowGang, replica: ReplicaId) -> tuple[list[Plain], list[Plain]]:
    volumes: list[Plain] = []
    mounts: list[Plain] = []
    if replica.role == LAUNCHER:
        items = [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]
        items.append({"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555})
        volumes.append({"name": "mpi-job-config", "configMap": {"name": config_name(job), "items": items}})
        mounts.append({"name": "mpi-job-config", "mountPath": FOLDER})
    if not job.second_mpi:
        staging = shell_staging(_job_name(job))
        volumes += staging.volumes
        mounts += staging.mounts
    else:
        folder = job.manifest_spec.get("sshAuthMountPath") or _ROOT_SSH
        keys: dict[str, Any] = {"secretName": f"{_job_name(job)}-ssh", "items": list(_SSH_ITEMS)}
        if folder == _ROOT_SSH:
            keys["defaultMode"] = 0o600
        volumes.append({"name": "ssh-auth", "secret": keys})
        mounts.append({"name": "ssh-auth", "mountPath": folder})
    return volumes, mounts
