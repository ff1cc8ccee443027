"""What is lifted out of a pod template: the training container's command, environment, port, image; what the pod needs.

The whole template is kept beside it, so that the Kubernetes engine loses nothing. Only the lifted part is read by
engines without containers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.dialects import quantities
from gangline.dialects.document import compact_json, plain
from gangline.dialects.kubeflow.kinds import Kind
from gangline.dialects.native.amounts import GPU_NAMES
from gangline.dialects.native.placement import read_requirement, read_toleration
from gangline.dialects.native.role import check_variable
from gangline.dialects.value import Value
from gangline.errors import InvalidInputError
from gangline.model import NodeRequirement, NodeRule, NodeTerm, Resources, Toleration
from gangline.model.jobs.placement import NODE_NAME

GANG_SCHEDULERS = re.compile(r"kube-?batchd?|volcano|scheduler-plugins.*|coscheduling.*", re.IGNORECASE)
"""Schedulers that people name to have their pods started together; here every job is a gang."""

_GPU_NAMES = (*GPU_NAMES, "alpha.kubernetes.io/nvidia-gpu")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """The lifted part of one replica's template. ``restart`` and ``grace_seconds`` are the pod's own, if given."""

    json: str
    image: str | None
    command: tuple[str, ...]
    port: int | None
    resources: Resources
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: NodeRule = field(default_factory=NodeRule)
    priority_class: str | None = None
    scheduler: str | None = None
    restart: str | None = None
    grace_seconds: int | None = None
    notes: tuple[str, ...] = ()
    local_notes: tuple[str, ...] = ()
    local_refusal: InvalidInputError | None = None
    """Why an engine without containers cannot run the training container."""


def read_template(where: Value, replica: Mapping[str, Value], kind: Kind, main: str | None) -> PodTemplate:
    """Read ``template`` of a replica; ``main`` is the container a user named as the training one."""
    pod = _pod(where, replica)
    containers = _containers(where, pod, kind)
    container = _training_container(containers, main or kind.container)
    return PodTemplate(
        json=compact_json(replica["template"].data),
        image=container["image"].text() if "image" in container else None,
        command=_command(container),
        env=_environment(container),
        port=_port(container, kind),
        resources=_resources(pod, containers),
        nodes=_nodes(pod),
        priority_class=pod["priorityClassName"].text() if "priorityClassName" in pod else None,
        scheduler=pod["schedulerName"].text() if "schedulerName" in pod else None,
        restart=pod["restartPolicy"].text() if "restartPolicy" in pod else None,
        grace_seconds=_grace(pod),
        notes=_notes(where, pod),
        local_notes=tuple(_local_notes(where, pod, container)),
        local_refusal=_local_refusal(where, container),
    )


def expand_references(words: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Replace ``$(NAME)`` the way a kubelet does: unknown names stay as they are, ``$$`` is a dollar sign.

    An engine without containers calls this once it knows a replica's whole environment.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else environment.get(name, match[0])

    return tuple(_REFERENCE.sub(value, word) for word in words)


def _pod(where: Value, replica: Mapping[str, Value]) -> dict[str, Value]:
    template = replica["template"].fields() if "template" in replica else {}
    if "spec" not in template:
        raise where.wrong("must be specified", expected="a pod template", below=".template.spec.containers")
    return template["spec"].fields()


def _containers(where: Value, pod: Mapping[str, Value], kind: Kind) -> list[dict[str, Value]]:
    values = pod["containers"].items() if "containers" in pod else []
    if not values:
        raise where.wrong("must be specified", expected="at least one container", below=".template.spec.containers")
    containers = [value.fields() for value in values]
    for value, container in zip(values, containers, strict=True):
        if not ("image" in container and container["image"].text()):
            raise value.wrong("must be required", expected="an image", below=".image")
    names = [container["name"].text() for container in containers if "name" in container]
    if kind.container is not None and kind.container not in names:
        raise pod["containers"].wrong(
            f"must have at least one container with name {kind.container}",
            expected=f"a container named {kind.container}",
        )
    return containers


def _training_container(containers: list[dict[str, Value]], name: str | None) -> dict[str, Value]:
    return next(
        (container for container in containers if "name" in container and container["name"].data == name),
        containers[0],
    )


def _command(container: Mapping[str, Value]) -> tuple[str, ...]:
    """The whole command line; none where it begins with the entry point of an image, which nobody here knows."""
    command, arguments = _words(container, "command"), _words(container, "args")
    return command + arguments if command else ()


def _local_refusal(where: Value, container: Mapping[str, Value]) -> InvalidInputError | None:
    if _words(container, "command"):
        return None
    has = "arguments and no command" if _words(container, "args") else "no command"
    image = container["image"].text()
    return where.wrong(
        f"the container has {has}, and the entry point of its image ({image}) is not known: "
        "this machine runs commands, not images",
        expected="a command",
        below=".template.spec.containers",
    )


def _words(container: Mapping[str, Value], name: str) -> tuple[str, ...]:
    if name not in container:
        return ()
    return tuple(item.text() for item in container[name].items())


def _environment(container: Mapping[str, Value]) -> dict[str, str]:
    """The variables with a value of their own; the others are resolved where the objects they name live."""
    environment = {}
    for item in container["env"].items() if "env" in container else []:
        variable = item.fields()
        if "name" not in variable:
            raise item.missing("name", "the variable's name")
        check_variable(variable["name"], variable["name"].text())
        if "valueFrom" not in variable:
            environment[variable["name"].text()] = variable["value"].text() if "value" in variable else ""
    return environment


def _port(container: Mapping[str, Value], kind: Kind) -> int | None:
    for item in container["ports"].items() if "ports" in container else []:
        port = item.fields()
        if "name" in port and port["name"].data == kind.port_name and "containerPort" in port:
            return port["containerPort"].integer(1, 65535)
    return None


def _resources(pod: Mapping[str, Value], containers: list[dict[str, Value]]) -> Resources:
    """What a kubelet sets aside for the pod. What nobody asked for is zero, as in Kubernetes, not our own default.

    Init containers run one after another, before the others; those that restart always run on beside them.
    """
    running = at_first = Resources()
    for container in [value.fields() for value in pod["initContainers"].items()] if "initContainers" in pod else []:
        asked = container_resources(container)
        at_first |= running + asked
        if "restartPolicy" in container and container["restartPolicy"].data == "Always":
            running += asked
    for container in containers:
        running += container_resources(container)
    return (at_first | running) + (_amounts(pod["overhead"].fields()) if "overhead" in pod else Resources())


def container_resources(container: Mapping[str, Value]) -> Resources:
    """Return what one container asks for."""
    given = container["resources"].fields() if "resources" in container else {}
    limits = given["limits"].fields() if "limits" in given else {}
    requests = given["requests"].fields() if "requests" in given else {}
    return _amounts({**limits, **requests})


def _amounts(given: Mapping[str, Value]) -> Resources:
    cpu, memory, gpu, extended = 0, 0, 0, {}
    for name, amount in given.items():
        if name == "cpu":
            cpu = amount.converted(quantities.cpu_millis, quantities.CPU_FORM)
        elif name == "memory":
            memory = amount.converted(quantities.memory_mib, quantities.MEMORY_FORM)
        elif name in _GPU_NAMES:
            gpu += amount.converted(quantities.gpu_millis, quantities.GPU_FORM)
        elif "/" in name:
            extended[name] = amount.converted(quantities.count, quantities.COUNT_FORM)
    return Resources(cpu_millis=cpu, memory_mib=memory, gpu_millis=gpu, extended=extended)


def nodes_of(template: Mapping[str, object]) -> NodeRule:
    """Return the nodes that a template allows."""
    spec = template.get("spec")
    return _nodes(plain(spec).fields() if spec else {})


def _nodes(pod: Mapping[str, Value]) -> NodeRule:
    return NodeRule(
        node_selector=pod["nodeSelector"].strings() if "nodeSelector" in pod else {},
        node_affinity=_node_affinity(pod),
        tolerations=_tolerations(pod),
    )


def _node_affinity(pod: Mapping[str, Value]) -> tuple[NodeTerm, ...]:
    """The terms of which one must hold; one that is empty holds of no node, as in Kubernetes."""
    required = _below(_below(pod, "affinity"), "nodeAffinity").get(_REQUIRED)
    if required is None:
        return ()
    given = required.fields(("nodeSelectorTerms",))
    terms = tuple(filter(None, map(_term, given["nodeSelectorTerms"].items() if "nodeSelectorTerms" in given else [])))
    if not terms:
        raise required.wrong("it selects no node", expected="a requirement", below=".nodeSelectorTerms")
    return terms


def _term(value: Value) -> NodeTerm:
    given = value.fields(("matchExpressions", "matchFields"))
    return tuple(requirement for name in given for requirement in map(_requirement, given[name].items()))


def _requirement(value: Value) -> NodeRequirement:
    requirement = read_requirement(value)
    if ".matchFields[" in value.path and requirement.key != NODE_NAME:
        raise value.wrong(f"nodes have no field '{requirement.key}'", expected=NODE_NAME, below=".key")
    return requirement


def _below(given: Mapping[str, Value], name: str) -> Mapping[str, Value]:
    return given[name].fields() if name in given else {}


def _tolerations(pod: Mapping[str, Value]) -> tuple[Toleration, ...]:
    """Tolerations as the scheduler knows them; ``tolerationSeconds`` is for evictions and stays in the template."""
    tolerations = []
    for item in pod["tolerations"].items() if "tolerations" in pod else []:
        given = {name: value.data for name, value in item.fields().items() if name != "tolerationSeconds"}
        tolerations.append(read_toleration(Value(data=given, path=item.path, source=item.source)))
    return tuple(tolerations)


def _grace(pod: Mapping[str, Value]) -> int | None:
    name = "terminationGracePeriodSeconds"
    return pod[name].integer(0) if name in pod else None


def _notes(where: Value, pod: Mapping[str, Value]) -> tuple[str, ...]:
    """What of the affinity guides the scheduler only in part."""
    affinity = _below(pod, "affinity")
    partly = [name for name in ("podAffinity", "podAntiAffinity") if _PREFERRED in _below(affinity, name)]
    return tuple(f"{where.path}: the preferred {name} counts towards pods of its own kind alone" for name in partly)


def _local_notes(where: Value, pod: Mapping[str, Value], container: Mapping[str, Value]) -> list[str]:
    notes = []
    if choosy := [name for name in ("nodeSelector", "affinity", "tolerations") if name in pod]:
        notes.append(f"{where.path}: {', '.join(choosy)} is not used here: it speaks of the nodes of a cluster")
    variables = [item.fields() for item in (container["env"].items() if "env" in container else [])]
    unresolved = [variable["name"].text() for variable in variables if "valueFrom" in variable]
    if "envFrom" in container:
        unresolved.append("envFrom")
    if unresolved:
        notes.append(
            f"{where.path}: {', '.join(unresolved)} is set from objects of the cluster, as far as they are here"
        )
    if "volumeMounts" in container:
        notes.append(
            f"{where.path}: mount paths are found in commands and variables only; volumes are directories here"
        )
    others = len(pod["containers"].items()) - 1 + len(pod["initContainers"].items() if "initContainers" in pod else [])
    if others:
        notes.append(f"{where.path}: only the training container runs here, not the {others} beside it")
    return notes
