"""A gang as Kubernetes objects. Pure: building them sends nothing, so a dry run is printing.

A gang of several replicas gets a headless service, so that each has a name before it has an address, and a network
policy that lets nobody in but its own. A job that can never have a second replica needs neither: it shares one policy
per namespace, which keeps a small job at a single write.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gangline.dialects.frameworks import Address, Team, hostfile, shares_secret, team_environment
from gangline.engines.kubernetes import job_secret, mpi_shell, names
from gangline.engines.kubernetes.launch_order import with_host_aliases
from gangline.engines.kubernetes.names import Part
from gangline.engines.kubernetes.pod import (
    DIRECTORIES,
    HOME,
    OWN_HOST,
    Plain,
    PodOrder,
    own_replicas_only,
    owned_metadata,
    replica_to_pod,
)
from gangline.engines.kubernetes.staging import Stock, gang_to_staging, moves_to_data
from gangline.kube import OwnerReference
from gangline.model import Framework, Gang, GangReplica, JobId, JobSpec, NodeName, ReplicaId

SOLO_POLICY = "gangline-solo"
_METRICS_PATH = "/dev/stdout"
"""Numbers travel with the output: the one stream that leaves a pod without a sidecar or a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the objects of a gang depend on besides the gang."""

    controller: str = "gangline"
    owner: OwnerReference | None = None
    gpu_resources: Mapping[NodeName, str] = field(default_factory=dict)
    priority_classes: tuple[tuple[int, str], ...] = ()
    """The priorities that have a PriorityClass here, lowest first."""
    stock: Stock = field(default_factory=Stock)
    mover_image: str | None = None
    """The image that moves data; None for each role's own."""
    lasting_addresses: Mapping[ReplicaId, str] = field(default_factory=dict)
    """Where an MPI launcher's workers are; see ``launch_order``."""


def is_solo(spec: JobSpec) -> bool:
    """Whether the job can never have a second replica."""
    return sum(role.most for role in spec.roles) == 1


def addresses(gang: Gang) -> dict[ReplicaId, Address]:
    """Where each replica is reached: by name, which holds wherever the pod lands."""
    suffix = "" if is_solo(gang.spec) else f".{_shared_name(gang)}.{gang.spec.tenant}.svc"
    return {
        replica.id: (names.host_name(replica.id) + suffix, gang.spec.role(replica.id.role).port)
        for replica in gang.replicas
    }


def gang_to_pods(gang: Gang, replicas: Iterable[GangReplica], around: Surroundings) -> Iterator[Plain]:
    """Write the pods of some replicas of a gang, each already bound to its node.

    One by one, as they are asked for: a large gang's first pods are on their way while the last are still written.
    """
    where = addresses(gang)
    team = Team.of(gang.spec, where, own_host=OWN_HOST)
    solo = is_solo(gang.spec)
    staging = gang_to_staging(gang.spec, _shared_name(gang), around.stock, mover_image=around.mover_image)
    if mpi_shell.has_shell(gang.spec):
        staging += mpi_shell.shell_staging(_shared_name(gang))
    elif shares_secret(gang.spec):
        staging += job_secret.secret_staging(job_secret.secret_name(_shared_name(gang)))
    for replica in replicas:
        pod = replica_to_pod(
            PodOrder(
                gang=gang,
                replica=replica,
                environment=_environment(gang, replica, team),
                labels=_pod_labels(gang, replica, around, solo=solo),
                subdomain=None if solo else _shared_name(gang),
                gpu_resource=around.gpu_resources.get(replica.node, "nvidia.com/gpu"),
                priority_class=_priority_class(gang.spec.priority, around),
                owner=around.owner,
                staging=staging,
                wrapper=mpi_shell.wrapper(gang.spec, replica.id.role),
            )
        )
        yield with_host_aliases(pod, replica.id, where, around.lasting_addresses)


def gang_to_service(gang: Gang, around: Surroundings) -> Plain | None:
    """Write the headless service that gives every replica its name; a lone replica needs none."""
    if is_solo(gang.spec):
        return None
    ports = sorted({role.port for role in gang.spec.roles})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(gang, around, _shared_name(gang), Part.NETWORK),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": names.job_labels(around.controller, gang.id.job_id),
            "ports": [{"name": f"port-{port}", "port": port} for port in ports],
        },
    }


def gang_to_network_policy(gang: Gang, around: Surroundings) -> Plain:
    """Write the policy that lets only the job's own replicas connect to each other."""
    if is_solo(gang.spec):
        return _solo_policy(gang, around)
    metadata = _metadata(gang, around, _shared_name(gang), Part.NETWORK)
    return own_replicas_only(metadata, names.job_labels(around.controller, gang.id.job_id))


def _solo_policy(gang: Gang, around: Surroundings) -> Plain:
    labels = {names.CONTROLLER: around.controller, names.PART: Part.NETWORK}
    selector = {"matchLabels": {names.CONTROLLER: around.controller, names.SOLO: "true"}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": owned_metadata(SOLO_POLICY, gang.spec.tenant, labels, None),
        "spec": {"podSelector": selector, "policyTypes": ["Ingress"]},
    }


def gang_to_hosts(gang: Gang, around: Surroundings) -> Plain | None:
    """Write the hostfile of an MPI gang: the kubelet carries a later change of it into running pods."""
    if gang.spec.framework is not Framework.MPI:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(gang, around, f"{_shared_name(gang)}-hosts", Part.HOSTS),
        "data": {"hostfile": hostfile(gang.spec, addresses(gang))},
    }


def gang_to_moves(gang: Gang, around: Surroundings) -> Plain | None:
    """Write the ConfigMap that tells the movers of the job's data what to do; None for a job without data."""
    if not (gang.spec.inputs or gang.spec.outputs):
        return None
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(gang, around, f"{_shared_name(gang)}-moves", Part.MOVES),
        "data": moves_to_data(gang.spec, gang.id.job_id, around.stock),
    }


def gang_to_secret(gang: Gang, around: Surroundings) -> Plain | None:
    """Write the Secret by which replicas know each other; None for a job that has no use for one."""
    name = secret_of(gang.spec, gang.id.job_id)
    if name is None:
        return None
    if mpi_shell.has_shell(gang.spec):
        return mpi_shell.shell_secret(_metadata(gang, around, name, Part.SHELL))
    return job_secret.new_secret(_metadata(gang, around, name, Part.SECRET))


def secret_of(spec: JobSpec, job_id: JobId) -> str | None:
    """Name the Secret of a job, if it has one."""
    shared = names.job_name(spec.name, job_id)
    if mpi_shell.has_shell(spec):
        return mpi_shell.shell_name(shared)
    return job_secret.secret_name(shared) if shares_secret(spec) else None


def archive_metadata(gang: Gang, around: Surroundings, part: Part, number: int | None = None) -> Plain:
    """Write the metadata of an archive that travels with the job: its code, or one of its inputs."""
    suffix = part if number is None else f"{part}-{number}"
    return _metadata(gang, around, f"{_shared_name(gang)}-{suffix}", part)


def _shared_name(gang: Gang) -> str:
    return names.job_name(gang.spec.name, gang.id.job_id)


def _metadata(gang: Gang, around: Surroundings, name: str, part: str) -> Plain:
    labels = {**names.job_labels(around.controller, gang.id.job_id), names.JOB: gang.spec.name, names.PART: part}
    return owned_metadata(name, gang.spec.tenant, labels, around.owner)


def _pod_labels(gang: Gang, replica: GangReplica, around: Surroundings, *, solo: bool) -> dict[str, str]:
    labels = {
        names.CONTROLLER: around.controller,
        names.JOB: gang.spec.name,
        **names.replica_labels(gang.id, replica),
    }
    return {**labels, names.SOLO: "true"} if solo else labels


def _environment(gang: Gang, replica: GangReplica, team: Team) -> dict[str, str]:
    own = {
        "JOB_NAME": gang.spec.name,
        **{variable: f"{HOME}/{folder}" for variable, folder in DIRECTORIES.items()},
        "GANGLINE_JOB_ID": gang.id.job_id,
        "GANGLINE_ATTEMPT": str(gang.id.attempt),
        "GANGLINE_INCARNATION": str(replica.incarnation),
        "GANGLINE_GRACE_SECONDS": f"{gang.spec.policy.grace_seconds:g}",
        "GANGLINE_METRICS": _METRICS_PATH,
    }
    return own | team_environment(
        team,
        replica.id,
        hostfile_path=f"{HOME}/hosts/hostfile",
        secret_path=f"{job_secret.FOLDER}/{job_secret.TOKEN}",
        remote_shell=mpi_shell.PROGRAM if mpi_shell.has_shell(gang.spec) else None,
    )


def _priority_class(priority: int, around: Surroundings) -> str | None:
    """The highest class that is not above the job's own priority."""
    fitting = [name for value, name in around.priority_classes if value <= priority]
    return fitting[-1] if fitting else None
