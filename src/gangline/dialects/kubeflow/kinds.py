"""The kinds of Kubeflow job as data: where their replicas are listed, what they are called, what is assumed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gangline.model import Framework, JobSpec, ReplicaId, RoleName

GROUP = "kubeflow.org"
V1 = f"{GROUP}/v1"
V2BETA1 = f"{GROUP}/v2beta1"
OLD_TF_VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2"))


MPI_V2_FIELDS = (
    "runPolicy",
    "slotsPerWorker",
    "runLauncherAsWorker",
    "sshAuthMountPath",
    "launcherCreationPolicy",
    "mpiImplementation",
)


class RestartPolicy(StrEnum):
    """What upstream calls a replica's restart policy."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of job. ``roles`` maps each replica type to the role it becomes, in upstream's order."""

    name: str
    plural: str
    framework: Framework
    replicas_field: str
    roles: Mapping[str, RoleName]
    spec_fields: tuple[str, ...]
    container: str | None
    port_name: str
    port: int
    restart: RestartPolicy
    required: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    at_least_one: tuple[str, ...] = ()
    default_replicas: Mapping[str, int] = field(default_factory=dict)
    default_restarts: Mapping[str, RestartPolicy] = field(default_factory=dict)
    restarts: tuple[RestartPolicy, ...] = tuple(RestartPolicy)
    versions: tuple[str, ...] = (V1,)
    has_services: bool = True
    """Whether upstream gives every replica a headless service of its own."""

    @property
    def controller(self) -> str:
        """The value of the operator-name label on upstream's pods."""
        return f"{self.name.lower()}-controller"

    def type_of(self, role: RoleName) -> str:
        """The replica type a role came from; a role added later keeps its name, capitalised."""
        return next((name for name, known in self.roles.items() if known == role), role.capitalize())


def kind_of(spec: JobSpec) -> Kind | None:
    """The kind a job was translated from; None for jobs of another origin, and of one whose shape is long gone."""
    version, _, name = (spec.origin or "").rpartition(" ")
    if spec.manifest_json is None or version == OLD_TF_VERSIONS[0]:
        return None
    return KINDS.get(name)


def replica_name(kind: Kind, job_name: str, replica: ReplicaId) -> str:
    """Name a replica's pod and service as upstream does; an MPIJob has one launcher, without a number."""
    if kind.framework is Framework.MPI and replica.role == _LAUNCHER:
        return f"{job_name}-{replica.role}"
    return f"{job_name}-{replica}"


_LAUNCHER = RoleName("launcher")
_MASTER_AND_WORKER = {"Master": RoleName("master"), "Worker": RoleName("worker")}

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="TFJob",
            plural="tfjobs",
            framework=Framework.TENSORFLOW,
            replicas_field="tfReplicaSpecs",
            roles={
                "Chief": RoleName("chief"),
                "Master": RoleName("master"),
                "PS": RoleName("ps"),
                "Worker": RoleName("worker"),
                "Evaluator": RoleName("evaluator"),
            },
            spec_fields=("runPolicy", "successPolicy", "enableDynamicWorker"),
            container="tensorflow",
            port_name="tfjob-port",
            port=2222,
            restart=RestartPolicy.NEVER,
            versions=(V1, *OLD_TF_VERSIONS),
        ),
        Kind(
            name="PyTorchJob",
            plural="pytorchjobs",
            framework=Framework.PYTORCH,
            replicas_field="pytorchReplicaSpecs",
            roles=_MASTER_AND_WORKER,
            spec_fields=("runPolicy", "elasticPolicy", "nprocPerNode"),
            container="pytorch",
            port_name="pytorchjob-port",
            port=23456,
            restart=RestartPolicy.ON_FAILURE,
            single=("Master",),
            at_least_one=("Worker",),
        ),
        Kind(
            name="MPIJob",
            plural="mpijobs",
            framework=Framework.MPI,
            replicas_field="mpiReplicaSpecs",
            roles={"Launcher": RoleName("launcher"), "Worker": RoleName("worker")},
            spec_fields=("runPolicy", "slotsPerWorker", "cleanPodPolicy", "mainContainer"),
            container=None,
            port_name="mpi-port",
            port=9999,
            restart=RestartPolicy.NEVER,
            required=("Launcher",),
            single=("Launcher",),
            default_replicas={"Worker": 0},
            versions=(V1, V2BETA1),
            has_services=False,
        ),
        Kind(
            name="XGBoostJob",
            plural="xgboostjobs",
            framework=Framework.XGBOOST,
            replicas_field="xgbReplicaSpecs",
            roles=_MASTER_AND_WORKER,
            spec_fields=("runPolicy",),
            container="xgboost",
            port_name="xgboostjob-port",
            port=9999,
            restart=RestartPolicy.NEVER,
            required=("Master",),
            single=("Master",),
        ),
        Kind(
            name="PaddleJob",
            plural="paddlejobs",
            framework=Framework.PADDLE,
            replicas_field="paddleReplicaSpecs",
            roles=_MASTER_AND_WORKER,
            spec_fields=("runPolicy", "elasticPolicy"),
            container="paddle",
            port_name="master",
            port=36543,
            restart=RestartPolicy.ON_FAILURE,
        ),
        Kind(
            name="JAXJob",
            plural="jaxjobs",
            framework=Framework.JAX,
            replicas_field="jaxReplicaSpecs",
            roles={"Worker": RoleName("worker")},
            spec_fields=("runPolicy",),
            container="jax",
            port_name="jaxjob-port",
            port=6666,
            restart=RestartPolicy.NEVER,
        ),
    )
}
