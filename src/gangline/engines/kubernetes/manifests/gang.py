"""A gang as Kubernetes objects. Pure: building them sends nothing, so a dry run is printing.

A gang of several replicas gets a headless service, so that each has a name before it has an address, and a network
policy that lets nobody in but its own. A job that can never have a second replica needs neither: it shares one policy
per namespace, which keeps a small job at a single write.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gangline.dialects.frameworks import Address, Team, hostfile, shares_secret, team_environment
from gangline.dialects.trainer import ORIGIN as TRAIN_JOB_ORIGIN
from gangline.dialects.trainer import jobset_labels
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests import job_secret
from gangline.engines.kubernetes.manifests.collector import with_collector, with_sources
from gangline.engines.kubernetes.manifests.moves import (
    GangData,
    JobArchives,
    checkpoint_variables,
    has_moves,
    moves_to_data,
)
from gangline.engines.kubernetes.manifests.mpi import remote_shell as mpi_shell
from gangline.engines.kubernetes.manifests.mpi.host_aliases import with_host_aliases
from gangline.engines.kubernetes.manifests.pod import (
    DIRECTORIES,
    HOME,
    OWN_HOST,
    Plain,
    PodOrder,
    config_map,
    headless_service,
    own_replicas_only,
    owned_metadata,
    replica_environment,
    replica_labels,
    replica_to_pod,
    shared_labels,
)
from gangline.engines.kubernetes.manifests.staging import gang_to_staging
from gangline.engines.kubernetes.names import Part
from gangline.kube import OwnerReference
from gangline.model import Framework, Gang, GangReplica, JobId, JobSpec, NodeName, ReplicaId
from gangline.model.kinds.service import SERVICE_LABEL

SOLO_POLICY = "gangline-solo"
SERVICE_POLICY = "gangline-services"
IMAGE_NOTE = "gangline-image"
"""A ConfigMap of every namespace with jobs: by it people's own machines know the image of this installation."""
IMAGE_NOTE_KEY = "image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the objects of a gang depend on besides the gang."""

    controller: str = "gangline"
    owner: OwnerReference | None = None
    gpu_resources: Mapping[NodeName, str] = field(default_factory=dict)
    priority_classes: tuple[tuple[int, str], ...] = ()
    """The priorities that have a PriorityClass here, lowest first."""
    job_archives: JobArchives = field(default_factory=JobArchives)
    data: GangData = field(default_factory=GangData)
    """What the job's moves name, as it was found."""
    mover_image: str | None = None
    """The image that moves data, Gangline's own; None for each role's, which must then have Gangline in it."""
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
    staging = gang_to_staging(
        gang.spec, _shared_name(gang), around.job_archives, around.data, mover_image=around.mover_image
    )
    if mpi_shell.has_shell(gang.spec):
        staging += mpi_shell.shell_staging(_shared_name(gang))
    elif shares_secret(gang.spec):
        staging += job_secret.secret_staging(job_secret.secret_name(_shared_name(gang)))
    more = {names.SOLO: "true"} if solo else {}
    if SERVICE_LABEL in gang.spec.labels:
        more[names.SERVES] = "true"
    trains = gang.spec.origin == TRAIN_JOB_ORIGIN
    for replica in replicas:
        foreign = jobset_labels(gang.spec.name, replica.id) if trains else {}
        pod = replica_to_pod(
            PodOrder(
                gang=gang,
                replica=replica,
                environment=_environment(gang, replica, team),
                labels={**foreign, **replica_labels(gang, replica, around.controller), **more},
                subdomain=None if solo else _shared_name(gang),
                gpu_resource=around.gpu_resources.get(replica.node, "nvidia.com/gpu"),
                priority_class=_priority_class(gang.spec.priority, around),
                owner=around.owner,
                staging=staging,
                wrapper=mpi_shell.wrapper(gang.spec, replica.id.role),
            )
        )
        if replica.id == ReplicaId(gang.spec.lead_role, 0):
            pod = with_sources(pod, gang.spec)
        yield with_collector(with_host_aliases(pod, replica.id, where, around.lasting_addresses), around.mover_image)


def gang_to_service(gang: Gang, around: Surroundings) -> Plain | None:
    """Write the headless service that gives every replica its name; a lone replica needs none."""
    if is_solo(gang.spec):
        return None
    ports = sorted({role.port for role in gang.spec.roles})
    return headless_service(
        _metadata(gang, around, _shared_name(gang), Part.NETWORK),
        names.job_labels(around.controller, gang.id.job_id),
        [{"name": f"port-{port}", "port": port} for port in ports],
    )


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


def gang_to_service_policy(gang: Gang, around: Surroundings) -> Plain | None:
    """Write the policy by which routers reach services, one per namespace; None for a gang that serves nothing."""
    if SERVICE_LABEL not in gang.spec.labels:
        return None
    labels = {names.CONTROLLER: around.controller, names.PART: Part.NETWORK}
    # Only an administrator labels a namespace: a pod that calls itself a router elsewhere is none.
    routers = {
        "namespaceSelector": {"matchLabels": {names.CONTROLLER: around.controller}},
        "podSelector": {"matchLabels": names.ROUTER},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": owned_metadata(SERVICE_POLICY, gang.spec.tenant, labels, None),
        "spec": {
            "podSelector": {"matchLabels": {names.CONTROLLER: around.controller, names.SERVES: "true"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [routers]}],
        },
    }


def image_note(gang: Gang, around: Surroundings) -> Plain:
    """Write down which image moves data, for whoever looks at files by hand."""
    metadata = owned_metadata(IMAGE_NOTE, gang.spec.tenant, {names.CONTROLLER: around.controller}, None)
    return config_map(metadata, {IMAGE_NOTE_KEY: around.mover_image or ""})


def gang_to_hosts(gang: Gang, around: Surroundings) -> Plain | None:
    """Write the hostfile of an MPI gang: the kubelet carries a later change of it into running pods."""
    if gang.spec.framework is not Framework.MPI:
        return None
    metadata = _metadata(gang, around, f"{_shared_name(gang)}-hosts", Part.HOSTS)
    return config_map(metadata, {"hostfile": hostfile(gang.spec, addresses(gang))})


def gang_to_moves(gang: Gang, around: Surroundings) -> Plain | None:
    """Write the ConfigMap that tells the movers of the job's data what to do; None for a job without data."""
    if not has_moves(gang.spec):
        return None
    metadata = _metadata(gang, around, f"{_shared_name(gang)}-moves", Part.MOVES)
    return config_map(metadata, moves_to_data(gang.spec, gang.id.job_id, around.job_archives, around.data))


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
    return owned_metadata(name, gang.spec.tenant, shared_labels(gang, around.controller, part), around.owner)


def _environment(gang: Gang, replica: GangReplica, team: Team) -> dict[str, str]:
    own = {
        "JOB_NAME": gang.spec.name,
        **{variable: f"{HOME}/{folder}" for variable, folder in DIRECTORIES.items()},
        **replica_environment(gang, replica),
        **checkpoint_variables(gang.spec),
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
