"""The pods of a Kubeflow job, as its author and upstream's operator would have them. Pure.

The template is kept to the letter: no security context, volume or token of ours is added, so that whatever ran under
the training operator runs here. Added are upstream's labels and environment, our own labels, node and default port, and
where there are parameter servers the Secret by which replicas know each other.
Names are upstream's too and repeat from attempt to attempt; the labels tell which attempt a pod belongs to.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gangline.dialects.frameworks import Address, Team, shares_secret, team_environment
from gangline.dialects.kubeflow import (
    JOB_ROLE_LABEL,
    REPLICA_INDEX_LABEL,
    Kind,
    replica_name,
    selector_labels,
)
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests import job_secret
from gangline.engines.kubernetes.manifests.pod import (
    DEFAULT_CONTAINER,
    OWN_HOST,
    Plain,
    Recipe,
    Staging,
    headless_service,
    own_replicas_only,
    owned_metadata,
    replica_environment,
    replica_labels,
    shared_labels,
    template_to_pod,
    variables,
)
from gangline.engines.kubernetes.names import Part
from gangline.kube import OwnerReference
from gangline.model import Clean, Framework, Gang, GangReplica, ReplicaId, RoleName

LAUNCHER = RoleName("launcher")
_EVERY_CONTAINER = frozenset({Framework.PYTORCH, Framework.XGBOOST, Framework.PADDLE})
"""Where upstream tells every container of the pod, and not only the one that trains."""


@dataclass(frozen=True, kw_only=True)
class KubeflowGang:
    """A gang of a Kubeflow job with what its objects depend on."""

    gang: Gang
    kind: Kind
    controller: str
    owner: OwnerReference | None
    lasting_addresses: Mapping[ReplicaId, str] = field(default_factory=dict)
    """Where an MPI launcher's workers are; see ``launch_order``."""

    @cached_property
    def manifest_spec(self) -> Plain:
        """The spec as its author wrote it."""
        spec: Plain = json.loads(self.gang.spec.manifest_json or "{}").get("spec") or {}
        return spec

    @property
    def second_mpi(self) -> bool:
        """Whether this is an MPIJob of ``v2beta1``, whose launcher logs in by ssh."""
        return (self.gang.spec.origin or "").startswith("kubeflow.org/v2beta1")

    @cached_property
    def addresses(self) -> dict[ReplicaId, Address]:
        """Where each replica is reached: by its service, in the form in which upstream's variables name it."""
        spec = self.gang.spec
        suffix = f".{spec.tenant}.svc" if self.kind.framework is Framework.TENSORFLOW else ""
        if self.kind.framework is Framework.MPI:
            suffix = f".{spec.name}.{spec.tenant}.svc"
        return {
            replica.id: (self.name_of(replica.id) + suffix, spec.role(replica.id.role).port)
            for replica in self.gang.replicas
        }

    @cached_property
    def team(self) -> Team:
        """The replicas in the order of their ranks."""
        return Team.of(self.gang.spec, self.addresses, own_host=OWN_HOST)

    def name_of(self, replica: ReplicaId) -> str:
        """The name of a replica's pod and service."""
        return replica_name(self.kind, self.gang.spec.name, replica)

    def labels_of(self, replica: ReplicaId) -> dict[str, str]:
        """Upstream's labels of a replica, by which its service selects it."""
        labels = selector_labels(self.gang.spec.name, self.kind, replica.role)
        return {**labels, REPLICA_INDEX_LABEL: str(replica.index)}

    def metadata(self, name: str, labels: Mapping[str, str]) -> Plain:
        """Write the metadata of something that belongs to the job."""
        return owned_metadata(name, self.gang.spec.tenant, labels, self.owner)

    def shared_labels(self, part: Part) -> dict[str, str]:
        """Our labels of what all replicas share, by which it is found again."""
        return shared_labels(self.gang, self.controller, part)


def our_annotations(job: KubeflowGang, containers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Our own annotations of a pod: which container trains, and whether the pod may outlive its job's end."""
    annotations = {DEFAULT_CONTAINER: training_container(job, containers)}
    if job.gang.spec.policy.clean is not Clean.ALL:
        annotations[names.CLEAN] = job.gang.spec.policy.clean
    return annotations


def training_container(job: KubeflowGang, containers: Iterable[Mapping[str, Any]]) -> str:
    """The container that trains: the one its author named, the kind's, else the first."""
    known = [str(container.get("name", "")) for container in containers]
    wanted = (job.manifest_spec.get("mainContainer"), job.kind.container)
    return next((name for name in wanted if name in known), known[0] if known else "")


def kubeflow_recipe(job: KubeflowGang, replica: GangReplica, template: Plain) -> Recipe:
    """Say how the template of a replica becomes its pod."""
    containers = (template.get("spec") or {}).get("containers") or []
    trains = training_container(job, containers)
    labels = {**job.labels_of(replica.id), **replica_labels(job.gang, replica, job.controller)}
    if replica.id == ReplicaId(job.gang.spec.lead_role, 0):
        labels[JOB_ROLE_LABEL] = "master"
    secret_path = f"{job_secret.FOLDER}/{job_secret.TOKEN}"
    team = team_environment(job.team, replica.id, secret_path=secret_path)
    environment, staging = replica_environment(job.gang, replica) | team, _secret_staging(job)
    return Recipe(
        metadata=job.metadata(job.name_of(replica.id), labels),
        annotations=our_annotations(job, containers),
        node=replica.node,
        main=next((at for at, one in enumerate(containers) if one.get("name") == trains), 0),
        variables=variables(environment),
        everybody=job.kind.framework in _EVERY_CONTAINER,
        volumes=list(staging.volumes),
        mounts=list(staging.mounts),
        finish=lambda given: {**given, "ports": _ports(job, replica.id.role, given.get("ports") or [])},
    )


def kubeflow_pods(
    job: KubeflowGang,
    replicas: Iterable[GangReplica],
    recipe_of: Callable[[KubeflowGang, GangReplica, Plain], Recipe] = kubeflow_recipe,
) -> Iterator[Plain]:
    """Write the pods of some replicas, each already bound to its node."""
    for replica in replicas:
        template = json.loads(job.gang.spec.role(replica.id.role).pod_template_json or "{}")
        yield template_to_pod(template, recipe_of(job, replica, template))


def _ports(job: KubeflowGang, role: RoleName, given: list[Plain]) -> list[Plain]:
    """The container's ports, with the kind's own where its author left it out."""
    if job.kind.framework is Framework.MPI or any(port.get("name") == job.kind.port_name for port in given):
        return given
    port = {"name": job.kind.port_name, "containerPort": job.gang.spec.role(role).port, "protocol": "TCP"}
    return [*given, port]


def kubeflow_secret(job: KubeflowGang) -> Plain | None:
    """Write the Secret by which parameter servers and their workers know each other; named as no other job's is."""
    if not shares_secret(job.gang.spec):
        return None
    return job_secret.new_secret(job.metadata(_secret_name(job), job.shared_labels(Part.SECRET)))


def _secret_name(job: KubeflowGang) -> str:
    return job_secret.secret_name(names.job_name(job.gang.spec.name, job.gang.id.job_id))


def _secret_staging(job: KubeflowGang) -> Staging:
    """What brings the secret into a pod: nothing where nobody has one."""
    return job_secret.secret_staging(_secret_name(job)) if shares_secret(job.gang.spec) else Staging()


def kubeflow_services(job: KubeflowGang, replicas: Iterable[GangReplica]) -> Iterator[Plain]:
    """Write the headless service of each replica, named as its pod. An MPIJob has those of ``shared_services``."""
    if not job.kind.has_services:
        labels = job.shared_labels(Part.NETWORK)
        selector = names.job_labels(job.controller, job.gang.id.job_id)
        everybody, launcher = shared_services(job)
        yield headless_service(job.metadata(everybody, labels), selector, [])
        yield headless_service(job.metadata(launcher, labels), {**selector, names.ROLE: LAUNCHER}, [])
        return
    for replica in replicas:
        template = json.loads(job.gang.spec.role(replica.id.role).pod_template_json or "{}")
        containers = (template.get("spec") or {}).get("containers") or []
        trains = training_container(job, containers)
        given = next((one.get("ports") or [] for one in containers if one.get("name") == trains), [])
        labels = job.labels_of(replica.id)
        ports = _service_ports(_ports(job, replica.id.role, given))
        metadata = job.metadata(job.name_of(replica.id), {**labels, **job.shared_labels(Part.NETWORK)})
        yield headless_service(metadata, labels, ports)


def kubeflow_network_policy(job: KubeflowGang) -> Plain:
    """Write the policy that lets only the job's own replicas connect to each other; named as no other job's is."""
    labels = names.job_labels(job.controller, job.gang.id.job_id)
    name = names.job_name(job.gang.spec.name, job.gang.id.job_id)
    return own_replicas_only(job.metadata(name, job.shared_labels(Part.NETWORK)), labels)


def _service_ports(ports: Iterable[Plain]) -> list[Plain]:
    """The ports of a service: unlike those of a container, each has a name, and none is there twice."""
    found: dict[tuple[str, int], Plain] = {}
    for port in ports:
        if "containerPort" in port:
            protocol, number = port.get("protocol") or "TCP", port["containerPort"]
            name = port.get("name") or f"{protocol.lower()}-{number}"
            found.setdefault((protocol, number), {"name": name, "port": number, "protocol": protocol})
    return list(found.values())


def shared_services(job: KubeflowGang) -> tuple[str, str]:
    """Name the two services of an MPIJob: one for all, named as the job, and one named as the launcher's host.

    Hydra's processes on the workers, and ranks that the launcher itself takes, are told the launcher's bare host name.
    """
    return job.gang.spec.name, job.name_of(ReplicaId(LAUNCHER, 0))
