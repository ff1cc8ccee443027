"""A TrainJob with its runtime as one job: a gang with the role ``node``, for MPI with the role ``launcher`` too. Pure.

Containers are read by the rules of Kubeflow's other kinds, so that volumes, variables and devices mean the same.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gangline.dialects import document
from gangline.dialects.frameworks import mpi
from gangline.dialects.kubeflow.kinds import KINDS
from gangline.dialects.kubeflow.pod_template import PodTemplate, read_template
from gangline.dialects.native.job import read_processes
from gangline.dialects.native.role import IDLE_COMMAND
from gangline.dialects.trainer.documents import API_VERSION, POLICIES, STEP_LABEL, TRAIN_JOB
from gangline.dialects.trainer.patches import patched
from gangline.dialects.translation import Translation
from gangline.errors import InvalidInputError
from gangline.model import (
    Clean,
    DataMove,
    Framework,
    JobSpec,
    Policy,
    Processes,
    ReplicaId,
    Restart,
    RoleName,
    RoleSpec,
)
from gangline.model.jobs.placement import AS_WRITTEN, POD_SECURITY, PlacementRule
from gangline.model.kinds.train_job import TrainJobSpec

ORIGIN = f"{API_VERSION} {TRAIN_JOB}"
NODE, LAUNCHER = RoleName("node"), RoleName("launcher")
PODS = replace(
    KINDS["MPIJob"],
    name=TRAIN_JOB,
    plural="trainjobs",
    framework=Framework.NONE,
    container=str(NODE),
    port_name="",
    roles={"node": NODE, "launcher": LAUNCHER},
)
"""What of Kubeflow's rules holds for the pods of a TrainJob."""
_JOBSET_NAME, _JOBSET_PART = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
_INDEX = "batch.kubernetes.io/job-completion-index"
_PORT = 29500
_FRAMEWORKS = {
    "torch": Framework.PYTORCH,
    "mpi": Framework.MPI,
    "jax": Framework.JAX,
    "xgboost": Framework.XGBOOST,
}
_HOSTFILE = "/etc/mpi/hostfile"
_OWN_HOSTFILE = "$(OMPI_MCA_orte_default_hostfile)"
_WORKSPACE = "/workspace"
_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
_MANY_FILES = "/"

Plain = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """A TrainJob and the runtime that it is run with, patches put in."""

    spec: TrainJobSpec
    body: Plain
    policy: Plain
    jobset: Plain

    @property
    def trainer(self) -> Plain:
        return self.body.get("trainer") or {}

    @property
    def flavour(self) -> str:
        """The framework in the words of ``mlPolicy``; nothing for a plain runtime."""
        return next((name for name in POLICIES if self.policy.get(name) is not None), "")

    @property
    def nodes(self) -> int:
        return int(self.trainer.get("numNodes") or self.policy.get("numNodes") or 1)

    def replicated(self, name: str) -> Plain | None:
        return next((each for each in self.jobset.get("replicatedJobs") or [] if each.get("name") == name), None)


def train_job_to_job(spec: TrainJobSpec, runtime_json: str) -> Translation:
    """Return the job that a TrainJob is with this runtime; raises InvalidInputError for what cannot be run."""
    parts = _parts(spec, runtime_json)
    moves = _moves(parts)
    roles, templates = _roles(parts, with_data=bool(moves))
    framework = _FRAMEWORKS.get(parts.flavour, Framework.NONE)
    metadata = json.loads(spec.manifest_json)["metadata"]
    nodes = templates[0].nodes
    job = JobSpec(
        name=spec.name,
        tenant=spec.tenant,
        labels=metadata.get("labels") or {},
        framework=framework,
        processes=_processes(parts, templates[0]),
        env=_environment(parts),
        roles=roles,
        inputs=moves,
        policy=_policy(parts, templates),
        placement=PlacementRule(
            node_selector=nodes.node_selector, node_affinity=nodes.node_affinity, tolerations=nodes.tolerations
        ),
        origin=ORIGIN,
        manifest_json=spec.manifest_json,
    )
    refusal = next((each.local_refusal for each, role in zip(templates, roles, strict=True) if not role.command), None)
    return Translation(
        spec=job,
        notes=tuple(note for each in templates for note in each.notes),
        local_notes=tuple(note for each in templates for note in each.local_notes),
        local_refusal=refusal,
    )


def jobset_labels(name: str, replica: ReplicaId) -> dict[str, str]:
    """The labels by which Trainer's clients find the pods of a TrainJob."""
    return {_JOBSET_NAME: name, _JOBSET_PART: replica.role, _INDEX: str(replica.index)}


def _parts(spec: TrainJobSpec, runtime_json: str) -> _Parts:
    body, runtime = json.loads(spec.manifest_json)["spec"], json.loads(runtime_json)["spec"]
    for patch in body.get("runtimePatches") or []:
        runtime = patched(runtime, patch.get("trainingRuntimeSpec") or {})
    jobset = (runtime.get("template") or {}).get("spec") or {}
    return _Parts(spec=spec, body=body, policy=runtime.get("mlPolicy") or {}, jobset=jobset)


def _roles(parts: _Parts, *, with_data: bool) -> tuple[tuple[RoleSpec, ...], list[PodTemplate]]:
    """Return the roles, the one that leads first, with what was read of their pods."""
    count, wanted = parts.nodes, [NODE]
    if parts.flavour == "mpi" and parts.replicated(LAUNCHER) is not None:
        wanted = [LAUNCHER, NODE]
        count -= bool((parts.policy["mpi"] or {}).get("runLauncherAsNode"))
    trains = wanted[0]
    roles, templates = list[RoleSpec](), list[PodTemplate]()
    for name in wanted:
        replicas = 1 if name == LAUNCHER else count
        if not replicas:
            continue
        template = _template(parts, name, trains=name == trains, with_data=with_data)
        templates.append(template)
        roles.append(
            RoleSpec(
                name=name,
                replicas=replicas,
                command=template.command,
                image=template.image,
                env=template.env,
                resources=template.resources,
                restart=Restart.GANG,
                port=_PORT,
                pod_template_json=template.json,
            )
        )
    return tuple(roles), templates


def _template(parts: _Parts, name: str, *, trains: bool, with_data: bool) -> PodTemplate:
    """Read the pod of a replicated job, with what the TrainJob says of the container that trains."""
    job = (parts.replicated(name) or {}).get("template") or {}
    template = (job.get("spec") or {}).get("template") or {}
    pod = dict(template.get("spec") or {})
    containers = [dict(each) for each in pod.get("containers") or []]
    containers.sort(key=lambda each: each.get("name") != NODE)  # the first one is the one that trains
    if not containers or containers[0].get("name") != NODE:
        raise InvalidInputError(
            f"the job '{name}' of the runtime has no container named 'node'",
            field="spec.runtimeRef",
            expected="a runtime with one",
        )
    containers[0] = _trained(containers[0], parts.trainer, whole=trains)
    if parts.flavour == "mpi":
        containers[0] = _reached_by_our_shell(containers[0], waits=not trains)
    if with_data:
        containers[0] = _with_data(containers[0])
    labels = {
        **((job.get("metadata") or {}).get("labels") or {}),
        **((template.get("metadata") or {}).get("labels") or {}),
    }
    metadata = {
        "labels": {name: value for name, value in labels.items() if name != STEP_LABEL},
        # As Trainer runs them: images of runtimes have users of their own, and some need root.
        "annotations": {POD_SECURITY: AS_WRITTEN, **((template.get("metadata") or {}).get("annotations") or {})},
    }
    whole = {"metadata": metadata, "spec": {**pod, "containers": containers}}
    value = document.plain({"template": whole})
    return read_template(value, value.fields(), PODS, NODE)


def _trained(container: Plain, trainer: Plain, *, whole: bool) -> Plain:
    """Put what ``trainer`` says into a container; one that only waits for a launcher takes its size and image."""
    found = {**container}
    if trainer.get("image"):
        found["image"] = trainer["image"]
    if trainer.get("resourcesPerNode"):
        found["resources"] = trainer["resourcesPerNode"]
    if whole:
        # A command replaces that of the runtime with its arguments: they would be another program's.
        if trainer.get("command"):
            found = {**{name: part for name, part in found.items() if name != "args"}, "command": trainer["command"]}
        if trainer.get("args"):
            found["args"] = trainer["args"]
        if trainer.get("env"):
            found["env"] = patched(found.get("env") or [], trainer["env"])
    return found


def _reached_by_our_shell(container: Plain, *, waits: bool) -> Plain:
    """Let ``mpirun`` find its nodes by Gangline's own shell and hostfile, in place of sshd and Trainer's hostfile."""
    command = [*(container.get("command") or ()), *(container.get("args") or ())]
    if waits and (not command or command[0].rpartition("/")[2] == "sshd"):
        kept = {name: part for name, part in container.items() if name != "args"}
        return {**kept, "command": [*IDLE_COMMAND]}
    words = {
        name: [_OWN_HOSTFILE if word == _HOSTFILE else word for word in container[name]]
        for name in ("command", "args")
        if container.get(name)
    }
    return {**container, **words}


def _with_data(container: Plain) -> Plain:
    """Let a program find what was fetched for it where Trainer's users look for it."""

    def located(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        for place in _INITIALIZERS.values():
            text = text.replace(f"{_WORKSPACE}/{place}", f"$(DATA_DIR)/{place}")
        return text

    found = dict(container)
    for name in ("command", "args"):
        if name in found:
            found[name] = [located(word) for word in found[name]]
    found["env"] = [
        {**each, "value": located(each["value"])} if "value" in each else each for each in found.get("env") or []
    ]
    mounts = [each for each in found.get("volumeMounts") or [] if not str(each.get("mountPath")).startswith(_WORKSPACE)]
    return {**found, "volumeMounts": mounts}


def _moves(parts: _Parts) -> tuple[DataMove, ...]:
    """What initializers would fetch, as inputs: once per job, before any replica starts."""
    given: Mapping[str, Any] = parts.body.get("initializer") or {}
    moves = []
    for job, place in _INITIALIZERS.items():
        address = (given.get(place) or {}).get("storageUri") or _address(parts.replicated(job))
        if not address:
            continue
        if address.startswith("hf://"):
            raise InvalidInputError(
                f"the runtime fetches {address}, and Gangline does not download from Hugging Face",
                field=f"spec.initializer.{place}.storageUri",
                expected="s3://, gs://, https://, pvc:// or file://",
            )
        moves.append(DataMove(address, f"$DATA_DIR/{place}{_MANY_FILES}"))
    return tuple(moves)


def _address(job: Plain | None) -> str | None:
    """The address that an initializer of the runtime itself names."""
    pod = ((((job or {}).get("template") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    variables = [each for container in pod.get("containers") or [] for each in container.get("env") or []]
    return next((each.get("value") for each in variables if each.get("name") == "STORAGE_URI"), None)


def _environment(parts: _Parts) -> dict[str, str]:
    if parts.flavour != "mpi":
        return {}
    policy = parts.policy["mpi"] or {}
    env = {mpi.IMPLEMENTATION: mpi.Implementation(policy.get("mpiImplementation") or "OpenMPI").value}
    return {**env, mpi.LAUNCHER_WORKS: "1"} if policy.get("runLauncherAsNode") else env


def _processes(parts: _Parts, template: PodTemplate) -> int | Processes | None:
    """How many processes a node has; torchrun counts nothing by itself: what was asked for is what it may use."""
    given = parts.trainer.get("numProcPerNode") or (parts.policy.get(parts.flavour) or {}).get("numProcPerNode")
    if parts.flavour == "mpi":
        return int(given or 1)
    if parts.flavour != "torch":
        return None
    processes = read_processes(document.plain(given if given is not None else Processes.AUTO.value))
    if processes is not Processes.AUTO:
        return processes
    asked = template.resources
    return max(1, (asked.gpu_millis or asked.cpu_millis) // 1000)


def _policy(parts: _Parts, templates: list[PodTemplate]) -> Policy:
    trains = parts.replicated(LAUNCHER if parts.flavour == "mpi" and parts.replicated(LAUNCHER) else NODE) or {}
    inner = ((trains.get("template") or {}).get("spec") or {}).get("backoffLimit") or 0
    outer = (parts.jobset.get("failurePolicy") or {}).get("maxRestarts") or 0
    graces = [each.grace_seconds for each in templates if each.grace_seconds is not None]
    return Policy(
        max_attempts=1 + max(int(inner), int(outer)),
        deadline_seconds=parts.body.get("activeDeadlineSeconds"),
        ttl_seconds=None,  # a TrainJob without its job would be lost
        clean=Clean.NONE,  # pods stay until the TrainJob is deleted: their logs are read by name
        grace_seconds=max(graces, default=Policy().grace_seconds),
    )
