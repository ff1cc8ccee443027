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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.device_claims import tie_to_node
from gangline.kube import OwnerReference
from gangline.model import Gang, GangReplica, ReplicaId, Resources, RoleSpec

Plain = dict[str, Any]
"""An object as JSON; templates pass through it untouched, which no struct of ours could promise."""

MAIN_CONTAINER = "main"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation that says which container trains: kubectl follows it too."""
HOME = "/gangline"
DIRECTORIES = {"DATA_DIR": "data", "RESULT_DIR": "results", "CHECKPOINT_DIR": "checkpoints", "HOME": "home"}
"""The directories every replica has, by the variable that names each."""
_POD_IP = "GANGLINE_POD_IP"
OWN_HOST = f"$({_POD_IP})"
"""How a replica's variables name its own address, which nobody knows before its pod is there."""

_RESTRICTED_POD: Plain = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "fsGroup": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_RESTRICTED_CONTAINER: Plain = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """What surrounds a program to bring its code and data and to take its results away; see ``staging``.

    The containers say only what is theirs: image and user are those of the program itself and, for those ``before``
    and ``after`` it, environment and directories too. ``after`` is for the lead replica alone.
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
    def shared(self) -> str:
        """The name of what all replicas of the job share."""
        return names.job_name(self.gang.spec.name, self.gang.id.job_id)


def replica_to_pod(order: PodOrder) -> Plain:
    """Write the pod of one replica."""
    template = json.loads(order.role.pod_template_json or "{}")
    metadata = _metadata(order, template.get("metadata") or {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(order, template.get("spec") or {})}


def owned_metadata(name: str, namespace: str, labels: Mapping[str, str], owner: OwnerReference | None) -> Plain:
    """Write the metadata of something that belongs to a job."""
    metadata: Plain = {"name": name, "namespace": namespace, "labels": dict(labels)}
    if owner is not None:
        metadata["ownerReferences"] = [owner_to_plain(owner)]
    return metadata


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


def _metadata(order: PodOrder, given: Plain) -> Plain:
    gang = order.gang
    labels = {**(given.get("labels") or {}), **order.labels}
    ours = owned_metadata(names.pod_name(gang.spec.name, gang.id, order.replica), gang.spec.tenant, labels, order.owner)
    containers = _template_containers(order)
    main = containers[main_container(containers, gang.spec.framework)].get("name", MAIN_CONTAINER)
    # Nothing else of the template's: a finalizer, say, would hold the pod, and so its machine, as long as it likes.
    return {**ours, "annotations": {**(given.get("annotations") or {}), DEFAULT_CONTAINER: main}}


def _template_containers(order: PodOrder) -> list[Plain]:
    template = json.loads(order.role.pod_template_json or "{}")
    return (template.get("spec") or {}).get("containers") or [{}]


def _spec(order: PodOrder, given: Plain) -> Plain:
    policy = order.gang.spec.policy
    spec: Plain = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # The program is then not process 1, to which the kernel delivers no signal it does not handle: an ordinary
        # program would sit out the whole grace period.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": max(0, round(policy.grace_seconds)),
        **given,
        **tie_to_node(given, order.replica.node),
        "hostname": names.host_name(order.replica.id),
        "restartPolicy": "Never",
        "securityContext": {**_RESTRICTED_POD, **(given.get("securityContext") or {})},
        "volumes": joined(_volumes(order), given.get("volumes")),
        "containers": _containers(order, _template_containers(order)),
    }
    if order.subdomain is not None:
        spec["subdomain"] = order.subdomain
    if order.priority_class is not None:
        spec.setdefault("priorityClassName", order.priority_class)
    if tolerations := [*(given.get("tolerations") or ()), *_tolerations(order)]:
        spec["tolerations"] = tolerations
    main = spec["containers"][main_container(spec["containers"], order.gang.spec.framework)]
    ours = [_dressed(container, main) for container in order.staging.unpack]
    ours += [_completed(container, order, main) for container in order.staging.before]
    if inits := [*ours, *map(_restricted, given.get("initContainers") or ())]:
        spec["initContainers"] = inits
    if order.replica.id == ReplicaId(order.gang.spec.lead_role, 0):
        spec["containers"] += [_completed(container, order, main) for container in order.staging.after]
    return spec


def main_container(containers: Iterable[Mapping[str, Any]], framework: str) -> int:
    """Find the container that trains: named ``main`` or as the framework, else the first."""
    for position, container in enumerate(containers):
        if container.get("name") in (MAIN_CONTAINER, framework):
            return position
    return 0


def _containers(order: PodOrder, given: list[Plain]) -> list[Plain]:
    main = main_container(given, order.gang.spec.framework)
    return [
        _restricted(_main(order, container) if position == main else container)
        for position, container in enumerate(given)
    ]


def _main(order: PodOrder, given: Plain) -> Plain:
    role, spec = order.role, order.gang.spec
    container: Plain = {"name": MAIN_CONTAINER, "image": role.image or spec.image or "", **given}
    if role.command and "command" not in given and "args" not in given:
        container["command"] = [literal(word) for word in role.command]
    if order.wrapper and ("command" in container or "args" not in container):
        # What an image would run with these arguments is not known here; it stays as it is.
        container["command"] = [*order.wrapper, *container.get("command", ())]
    container["env"] = joined(variables(order.environment), given.get("env"))
    container["resources"] = _resources(role.resources, order.gpu_resource, given.get("resources") or {})
    ours = joined(_mounts(order), list(order.staging.mounts), key="mountPath")
    container["volumeMounts"] = joined(ours, given.get("volumeMounts"), key="mountPath")
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
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
    return {**container, "securityContext": {**_RESTRICTED_CONTAINER, **(container.get("securityContext") or {})}}


def _resources(wanted: Resources, gpu_resource: str, given: Plain) -> Plain:
    """Ask for what the role needs. Memory and devices are limited to that; CPU time left idle may be used by all."""
    requests: dict[str, object] = {}
    limits: dict[str, object] = {}
    if wanted.cpu_millis:
        requests["cpu"] = f"{wanted.cpu_millis}m"
    if wanted.memory_mib:
        requests["memory"] = limits["memory"] = f"{wanted.memory_mib}Mi"
    # A fraction of a GPU is the scheduler's notion; a device plugin hands out whole ones.
    if gpus := -(-wanted.gpu_millis // 1000):
        requests[gpu_resource] = limits[gpu_resource] = str(gpus)
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
                ("value", toleration.value),
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


def _dressed(container: Plain, main: Plain) -> Plain:
    """Give a container of ours the image and the user of the program, unless it brings an image."""
    taken = ("securityContext",) if "image" in container else ("image", "imagePullPolicy", "securityContext")
    return {**{name: main[name] for name in taken if name in main}, **container}


def _completed(container: Plain, order: PodOrder, main: Plain) -> Plain:
    """Give a container of ours all that the program has, so that it can reach what the program could."""
    inherited: Plain = {name: main[name] for name in ("env", "envFrom") if name in main}
    mounts = joined(_mounts(order), _given_mounts(order), key="mountPath")
    whole = joined(mounts, container["volumeMounts"], key="mountPath")
    return {**inherited, **_dressed(container, main), "volumeMounts": whole}


def _given_mounts(order: PodOrder) -> list[Plain]:
    containers = _template_containers(order)
    return containers[main_container(containers, order.gang.spec.framework)].get("volumeMounts") or []


def joined(ours: list[Plain], given: list[Plain] | None, *, key: str = "name") -> list[Plain]:
    """Put what a template gives after what we give, leaving out of ours what it names itself."""
    taken = {entry.get(key) for entry in given or ()}
    return [*(entry for entry in ours if entry[key] not in taken), *(given or ())]
