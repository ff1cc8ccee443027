"""One replica as a pod: the role's own template, completed. Pure.

The order of precedence, also in docs/kubernetes.md:

1. What binds and identifies the pod is always ours: name, namespace, the ``gangline.dev`` labels, owner, node, host
   name and subdomain, ``restartPolicy: Never``.
2. Whatever else the role's ``pod_template`` says stays as it is written: volumes, sidecars, affinity, security
   context, environment, command, resources.
3. What the template leaves open is filled from the job (image, command, environment, resources, tolerations, grace
   period) and from safe defaults (the *restricted* Pod Security level, no service-account token).

Lists of named things (volumes, mounts, environment) are joined by name; the template's entry wins.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.device_claims import tie_to_node
from gangline.kube import OwnerReference
from gangline.model import Gang, GangReplica, ReplicaId, Resources, RoleSpec
from gangline.model.jobs.placement import AS_WRITTEN, POD_SECURITY
from gangline.model.kinds.service import SERVICE_LABEL
from gangline.runtime.stacks import STALLED_VARIABLE

Plain = dict[str, Any]
"""An object as JSON; templates pass through it untouched, which no struct of ours could promise."""

MAIN_CONTAINER = "main"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation that says which container trains: kubectl follows it too."""
HOME = "/gangline"
DIRECTORIES = {"DATA_DIR": "data", "RESULT_DIR": "results", "CHECKPOINT_DIR": "checkpoints", "HOME": "home"}
"""The directories every replica has, by the variable that names each."""
_METRICS_PATH = "/dev/stdout"
"""Numbers travel with the output: the one stream that leaves a pod without a sidecar or a token."""
RESULT_PATH = "/dev/termination-log"
"""Where a program leaves a short text for whoever started its job: a kubelet tells the first 4 KiB of it."""
_POD_IP = "GANGLINE_POD_IP"
OWN_HOST = f"$({_POD_IP})"
"""How a replica's variables name its own address, which nobody knows before its pod is there."""

_OF_STORES = ("AWS_", "AZURE_", "GOOGLE_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")
"""How the variables begin that a mover takes over. Others, such as LD_PRELOAD, are meant for the program's image."""

RESTRICTED_POD: Plain = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "fsGroup": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER: Plain = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """What surrounds a program to bring its code and data and to take its results away; see ``staging``.

    The containers say only what is theirs: user and, unless they bring one, image are those of the program itself and,
    for those ``before`` and ``after`` it, the directories too. ``after`` is for the lead replica alone.
    """

    volumes: tuple[Plain, ...] = ()
    mounts: tuple[Plain, ...] = ()
    unpack: tuple[Plain, ...] = ()
    before: tuple[Plain, ...] = ()
    after: tuple[Plain, ...] = ()

    def __add__(self, other: "Staging") -> "Staging":
        return Staging(
            volumes=self.volumes + other.volumes,
            mounts=self.mounts + other.mounts,
            unpack=self.unpack + other.unpack,
            before=self.before + other.before,
            after=self.after + other.after,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOrder:
    """One pod to be made. ``owner`` is the job object, where the record of jobs is the cluster itself."""

    gang: Gang
    replica: GangReplica
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    subdomain: str | None
    gpu_resource: str
    priority_class: str | None
    owner: OwnerReference | None
    staging: Staging = field(default_factory=Staging)
    wrapper: tuple[str, ...] = ()
    """Words before the program's command: a program of ours that runs it."""

    @property
    def role(self) -> RoleSpec:
        """The role this replica plays."""
        return self.gang.spec.role(self.replica.id.role)

    @property
    def as_written(self) -> bool:
        """Whether the template's own security context stands, without ours."""
        template = json.loads(self.role.pod_template_json or "{}")
        return ((template.get("metadata") or {}).get("annotations") or {}).get(POD_SECURITY) == AS_WRITTEN

    @property
    def shared(self) -> str:
        """The name of what all replicas of the job share."""
        return names.job_name(self.gang.spec.name, self.gang.id.job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a template becomes the pod of one replica. Whatever a recipe does not name stays as the template has it."""

    metadata: Plain
    annotations: Mapping[str, str]
    node: str
    main: int
    """The container that trains, by its position."""
    variables: list[Plain]
    everybody: bool = False
    """Whether the variables are for every container, and not only for the one that trains."""
    defaults: Plain = field(default_factory=dict)
    """Fields of the spec that the template may replace."""
    fixed: Plain = field(default_factory=dict)
    """Fields of the spec that it may not."""
    volumes: list[Plain] = field(default_factory=list)
    mounts: list[Plain] = field(default_factory=list)
    finish: Callable[[Plain], Plain]
    """Completes the container that trains."""


def template_to_pod(template: Plain, recipe: Recipe) -> Plain:
    """Write a pod as a recipe says, tied to its node."""
    given, spec = template.get("metadata") or {}, template.get("spec") or {}
    containers = enumerate(spec.get("containers") or [{}])
    whole: Plain = {
        **recipe.defaults,
        **spec,
        **tie_to_node(spec, recipe.node),
        **recipe.fixed,
        "restartPolicy": "Never",
        "containers": [_container(one, recipe, trains=position == recipe.main) for position, one in containers],
    }
    if recipe.volumes:
        whole["volumes"] = joined(recipe.volumes, spec.get("volumes"))
    # Nothing else of the template's: a finalizer, say, would hold the pod, and so its machine, as long as it likes.
    metadata = {
        **recipe.metadata,
        "labels": {**(given.get("labels") or {}), **recipe.metadata["labels"]},
        "annotations": {**(given.get("annotations") or {}), **recipe.annotations},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def _container(given: Plain, recipe: Recipe, *, trains: bool) -> Plain:
    if not trains and not recipe.everybody:
        return given
    container = {**given, "env": joined(recipe.variables, given.get("env"))}
    if not trains:
        return container
    if recipe.mounts:
        container["volumeMounts"] = joined(recipe.mounts, given.get("volumeMounts"), key="mountPath")
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    return recipe.finish(container)


def replica_to_pod(order: PodOrder) -> Plain:
    """Write the pod of one replica of a job of ours."""
    template = json.loads(order.role.pod_template_json or "{}")
    given = template.get("spec") or {}
    containers = given.get("containers") or [{}]
    main = main_container(containers, order.gang.spec.framework)
    gang, staging = order.gang, order.staging
    name = names.pod_name(gang.spec.name, gang.id, order.replica)
    recipe = Recipe(
        metadata=owned_metadata(name, gang.spec.tenant, order.labels, order.owner),
        annotations={DEFAULT_CONTAINER: containers[main].get("name", MAIN_CONTAINER)},
        node=order.replica.node,
        main=main,
        variables=variables(order.environment),
        defaults=_defaults(order),
        fixed=_fixed(order, given),
        volumes=_volumes(order),
        mounts=joined(_mounts(order), list(staging.mounts), key="mountPath"),
        finish=partial(_main, order),
    )
    pod = template_to_pod(template, recipe)
    return {**pod, "spec": _surrounded(order, pod["spec"], main, containers[main].get("volumeMounts") or [])}


def owned_metadata(name: str, namespace: str, labels: Mapping[str, str], owner: OwnerReference | None) -> Plain:
    """Write the metadata of something that belongs to a job."""
    metadata: Plain = {"name": name, "namespace": namespace, "labels": dict(labels)}
    if owner is not None:
        metadata["ownerReferences"] = [owner_to_plain(owner)]
    return metadata


def replica_environment(gang: Gang, replica: GangReplica) -> dict[str, str]:
    """Return what training code may read of its place in the platform, whoever's form the job has."""
    return {
        "GANGLINE_JOB_ID": gang.id.job_id,
        "GANGLINE_ATTEMPT": str(gang.id.attempt),
        **({"GANGLINE_RESUME_FROM": str(gang.resume_from)} if gang.resume_from else {}),
        "GANGLINE_INCARNATION": str(replica.incarnation),
        "GANGLINE_GRACE_SECONDS": f"{gang.spec.policy.grace_seconds:g}",
        "GANGLINE_METRICS": _METRICS_PATH,
        "GANGLINE_RESULT": RESULT_PATH,
        **({STALLED_VARIABLE: f"{stalled.after_seconds:g}"} if (stalled := gang.spec.policy.stalled) else {}),
    }


def replica_labels(gang: Gang, replica: GangReplica, controller: str) -> dict[str, str]:
    """Return our own labels of a pod; adopting a pod is giving it these."""
    return {names.CONTROLLER: controller, names.JOB: gang.spec.name, **names.replica_labels(gang.id, replica)}


def shared_labels(gang: Gang, controller: str, part: str) -> dict[str, str]:
    """Return our labels of what all replicas share, by which it is found again."""
    return {**names.job_labels(controller, gang.id.job_id), names.JOB: gang.spec.name, names.PART: part}


def headless_service(metadata: Plain, selector: Mapping[str, str], ports: list[Plain]) -> Plain:
    """Write a service that only gives names to pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        # Peers look each other up while they start: an address that is published only when ready may come too late.
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(selector), "ports": ports},
    }


def config_map(metadata: Plain, data: Mapping[str, str]) -> Plain:
    """Write a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def owner_to_plain(owner: OwnerReference) -> Plain:
    """Point to the job object as its controller: garbage collection follows it, and ``kubectl drain`` asks for it."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": owner.block_owner_deletion,
    }


def own_replicas_only(metadata: Plain, labels: Mapping[str, str]) -> Plain:
    """Write the network policy of a job whose pods have these labels: nobody connects to them but they themselves."""
    selector = {"matchLabels": dict(labels)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": selector}]}],
        },
    }


def _defaults(order: PodOrder) -> Plain:
    defaults: Plain = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # The program is then not process 1, to which the kernel delivers no signal it does not handle: an ordinary
        # program would sit out the whole grace period.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": max(0, round(order.gang.spec.policy.grace_seconds)),
    }
    return defaults if order.priority_class is None else {**defaults, "priorityClassName": order.priority_class}


def _fixed(order: PodOrder, given: Plain) -> Plain:
    restricted = {} if order.as_written else RESTRICTED_POD
    fixed: Plain = {
        "hostname": names.host_name(order.replica.id),
        "securityContext": {**restricted, **(given.get("securityContext") or {})},
    }
    if order.subdomain is not None:
        fixed["subdomain"] = order.subdomain
    if tolerations := [*(given.get("tolerations") or ()), *_tolerations(order)]:
        fixed["tolerations"] = tolerations
    return fixed


def _surrounded(order: PodOrder, spec: Plain, position: int, given_mounts: list[Plain]) -> Plain:
    """Restrict every container, and put those that bring and take data before and beside them."""
    restricted = (lambda container: container) if order.as_written else _restricted
    containers = [restricted(container) for container in spec["containers"]]
    main = containers[position]
    mounts = joined(_mounts(order), given_mounts, key="mountPath")
    ours = [_with_image(container, main) for container in order.staging.unpack]
    ours += [_completed(container, mounts, main) for container in order.staging.before]
    inits = [*ours, *map(restricted, spec.get("initContainers") or ())]
    if order.replica.id == ReplicaId(order.gang.spec.lead_role, 0):
        containers += [_completed(container, mounts, main) for container in order.staging.after]
    return {**spec, "containers": containers, **({"initContainers": inits} if inits else {})}


def main_container(containers: Iterable[Mapping[str, Any]], framework: str) -> int:
    """Find the container that trains: named ``main`` or as the framework, else the first."""
    for position, container in enumerate(containers):
        if container.get("name") in (MAIN_CONTAINER, framework):
            return position
    return 0


def _main(order: PodOrder, given: Plain) -> Plain:
    role, spec = order.role, order.gang.spec
    container: Plain = {"name": MAIN_CONTAINER, "image": role.image or spec.image or "", **given}
    if role.command and "command" not in given and "args" not in given:
        # Programs of services say where their port belongs as a container would: $(PORT).
        serves = SERVICE_LABEL in spec.labels
        container["command"] = list(role.command) if serves else [literal(word) for word in role.command]
    if order.wrapper and ("command" in container or "args" not in container):
        # What an image would run with these arguments is not known here; it stays as it is.
        container["command"] = [*order.wrapper, *container.get("command", ())]
    container["resources"] = _resources(role.resources, order.gpu_resource, given.get("resources") or {})
    if spec.code:
        container.setdefault("workingDir", f"{HOME}/code")
    return container


def variables(environment: Mapping[str, str]) -> list[Plain]:
    """Write variables of ours; in one that begins with ``OWN_HOST`` the kubelet puts the pod's address."""
    written: list[Plain] = []
    for name, value in environment.items():
        if value.startswith(OWN_HOST):
            written.append({"name": _POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
        written.append({"name": name, "value": value if value.startswith(OWN_HOST) else literal(value)})
    return written


def literal(text: str) -> str:
    """Keep Kubernetes from reading ``$(NAME)`` as a reference and ``$$`` as one sign: a job means the same anywhere."""
    return text.replace("$", "$$") if "$$" in text or "$(" in text else text


def _restricted(container: Plain) -> Plain:
    return {**container, "securityContext": {**RESTRICTED_CONTAINER, **(container.get("securityContext") or {})}}


def _resources(wanted: Resources, gpu_resource: str, given: Plain) -> Plain:
    """Ask for what the role needs. Memory and devices are limited to that; CPU time left idle may be used by all."""
    requests: dict[str, object] = {}
    limits: dict[str, object] = {}
    if wanted.cpu_millis:
        requests["cpu"] = f"{wanted.cpu_millis}m"
    if wanted.memory_mib:
        requests["memory"] = limits["memory"] = f"{wanted.memory_mib}Mi"
    # A fraction of a GPU is the scheduler's notion; a device plugin hands out whole ones.
    # A device plugin hands out whole GPUs: whoever asks for memory of one gets one that has it.
    if gpus := -(-wanted.gpu_millis // 1000) or bool(wanted.gpu_memory_mib):
        requests[gpu_resource] = limits[gpu_resource] = str(int(gpus))
    for name, amount in wanted.extended.items():
        if amount:
            requests[name] = limits[name] = str(amount)
    return {
        **given,
        "requests": {**requests, **(given.get("requests") or {})},
        "limits": {**limits, **(given.get("limits") or {})},
    }


def _tolerations(order: PodOrder) -> list[Plain]:
    return [
        {
            name: value
            for name, value in (
                ("key", toleration.key),
                ("operator", "Exists" if not toleration.key else toleration.operator),
                ("value", toleration.value if toleration.key else ""),
                ("effect", toleration.effect),
            )
            if value
        }
        for toleration in order.gang.spec.nodes_of(order.role).tolerations
    ]


def _volumes(order: PodOrder) -> list[Plain]:
    claim = order.gang.spec.labels.get(names.VOLUME)
    volumes: list[Plain] = [{"name": "gangline-scratch", "emptyDir": {}}]
    if claim:
        volumes.append({"name": "gangline-volume", "persistentVolumeClaim": {"claimName": claim}})
    if order.gang.spec.framework == "mpi":
        volumes.append({"name": "gangline-hosts", "configMap": {"name": f"{order.shared}-hosts"}})
    return [*volumes, *order.staging.volumes]


def _mounts(order: PodOrder) -> list[Plain]:
    spec = order.gang.spec
    kept = "gangline-volume" if spec.labels.get(names.VOLUME) else "gangline-scratch"
    mounts: list[Plain] = []
    for folder in DIRECTORIES.values():
        if folder == "home" or kept == "gangline-scratch":
            mounts.append({"name": "gangline-scratch", "mountPath": f"{HOME}/{folder}", "subPath": folder})
        else:
            mounts.append({"name": kept, "mountPath": f"{HOME}/{folder}", "subPath": f"{spec.name}/{folder}"})
    if spec.code:
        mounts.append({"name": "gangline-scratch", "mountPath": f"{HOME}/code", "subPath": "code"})
    if spec.framework == "mpi":
        mounts.append({"name": "gangline-hosts", "mountPath": f"{HOME}/hosts"})
    return mounts


def _with_image(container: Plain, main: Plain) -> Plain:
    """Give a container of ours the image and the user of the program, unless it brings an image."""
    taken = ("securityContext",) if "image" in container else ("image", "imagePullPolicy", "securityContext")
    return {**{name: main[name] for name in taken if name in main}, **container}


def _completed(container: Plain, mounts: list[Plain], main: Plain) -> Plain:
    """Give a mover the program's directories and, of its variables, those by which tools find a store and its keys."""
    known = [variable for variable in main.get("env") or () if variable["name"].upper().startswith(_OF_STORES)]
    inherited: Plain = {"env": known} if known else {}
    if "envFrom" in main:
        inherited["envFrom"] = main["envFrom"]
    whole = joined(mounts, container["volumeMounts"], key="mountPath")
    return {**inherited, **_with_image(container, main), "volumeMounts": whole}


def joined(ours: list[Plain], given: list[Plain] | None, *, key: str = "name") -> list[Plain]:
    """Put what a template gives after what we give, leaving out of ours what it names itself."""
    taken = {entry.get(key) for entry in given or ()}
    return [*(entry for entry in ours if entry[key] not in taken), *(given or ())]
