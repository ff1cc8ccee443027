"""The second document of a compiled pipeline: settings of an executor for Kubernetes, as the template of its pod.

A name that only the run knows (of a Secret, say) comes from the graph that a task is in, as the task's own inputs do.
It becomes one more input of the task and the component, whose name begins with ``HIDDEN``, and a placeholder in the
template.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gangline.dialects.kfp.sources import read_source
from gangline.dialects.native.role import check_variable
from gangline.dialects.value import Value
from gangline.pipelines.graph import HIDDEN, InputSource
from gangline.pipelines.settings import READ

Plain = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(slots=True)
class PodSettings:
    """What an executor's pod gets, and the inputs that its placeholders stand for."""

    pod: Plain = field(default_factory=dict)
    main: Plain = field(default_factory=dict)
    metadata: Plain = field(default_factory=dict)
    sources: dict[str, InputSource] = field(default_factory=dict)
    deadline_seconds: float | None = None
    ignored: list[str] = field(default_factory=list)
    """Where something stands that means nothing here."""

    @property
    def template(self) -> Plain:
        """The template of the pod; nothing if nothing is said of it."""
        spec = {**self.pod, **({"containers": [self.main]} if self.main else {})}
        parts = {"metadata": self.metadata, "spec": spec}
        return {name: part for name, part in parts.items() if part}

    def named(self, value: Value, name: str, parameter: str) -> str:
        """Return a name that stands there, or a placeholder for one that is known later."""
        found = value.fields()
        if parameter in found:
            return self.later(found[parameter])
        return found[name].text() if found.get(name) else value.need(parameter, "a name").text()

    def later(self, value: Value) -> str:
        """Return a placeholder for what an input of the task will be."""
        source = read_source(value)
        name = f"{HIDDEN}{len(self.sources)}"
        self.sources[name] = source
        return f"{{{{$.inputs.parameters['{name}']}}}}"

    def read_later(self, value: Value) -> Plain:
        """Return what stands for a value that is written in JSON, or that an input will have."""
        return {READ: self.later(value)}

    def mount(self, volume: Plain, value: Value) -> None:
        """Add a volume and where the program finds it."""
        found = value.fields()
        name = volume.get("name") or f"settings-{len(self.pod.get('volumes', ()))}"
        entry: Plain = {"name": name, "mountPath": value.need("mountPath", "a path").text()}
        if "subPath" in found and found["subPath"].text():
            entry["subPath"] = found["subPath"].text()
        self.pod.setdefault("volumes", []).append({**volume, "name": name})
        self.main.setdefault("volumeMounts", []).append(entry)

    def variable(self, name: Value, source: Plain) -> None:
        """Add a variable whose value is looked up."""
        check_variable(name, name.text())
        self.main.setdefault("env", []).append({"name": name.text(), "valueFrom": source})


def read_settings(value: Value) -> PodSettings:
    """Read the settings of one executor; what is not known is noted."""
    settings = PodSettings()
    for name, each in value.fields().items():
        reader = _READERS.get(name)
        if reader is None:
            settings.ignored.append(each.path)
        else:
            reader(settings, each)
    return settings


def _each(read: Callable[[PodSettings, Value], None]) -> Callable[[PodSettings, Value], None]:
    def every(settings: PodSettings, value: Value) -> None:
        for item in value.items():
            read(settings, item)

    return every


def _optional(value: Value) -> Plain:
    found = value.fields()
    return {"optional": found["optional"].boolean()} if "optional" in found else {}


def _volume_of(kind: str, field_name: str, name: str) -> Callable[[PodSettings, Value], None]:
    def read(settings: PodSettings, value: Value) -> None:
        source = {field_name: settings.named(value, name, f"{name}Parameter"), **_optional(value)}
        settings.mount({kind: source}, value)

    return _each(read)


def _variables_of(kind: str, name: str, key: str) -> Callable[[PodSettings, Value], None]:
    def read(settings: PodSettings, value: Value) -> None:
        source = {"name": settings.named(value, name, f"{name}Parameter"), **_optional(value)}
        for pair in value.need("keyToEnv", "keys and variables").items():
            variable = pair.need("envVar", "the name of a variable")
            settings.variable(variable, {kind: {**source, "key": pair.need(key, "a key").text()}})

    return _each(read)


def _claim(settings: PodSettings, value: Value) -> None:
    found = value.fields()
    if "pvcNameParameter" in found:
        name = settings.later(found["pvcNameParameter"])
    elif "constant" in found:
        name = found["constant"].text()
    else:
        name = settings.later(value)
    settings.mount({"persistentVolumeClaim": {"claimName": name}}, value)


def _empty_dir(settings: PodSettings, value: Value) -> None:
    found = value.fields()
    source = {name: found[name].text() for name in ("medium", "sizeLimit") if name in found}
    settings.mount({**_volume_name(value), "emptyDir": source}, value)


def _ephemeral(settings: PodSettings, value: Value) -> None:
    found = value.fields()
    claim: Plain = {
        "accessModes": [each.text() for each in found["accessModes"].items()] if "accessModes" in found else [],
        "resources": {"requests": {"storage": value.need("size", "a size").text()}},
    }
    if "storageClassName" in found:
        claim["storageClassName"] = found["storageClassName"].text()
    settings.mount({**_volume_name(value), "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}, value)


def _volume_name(value: Value) -> Plain:
    found = value.fields()
    return {"name": found["volumeName"].text()} if "volumeName" in found else {}


def _shared_memory(settings: PodSettings, value: Value) -> None:
    found = value.fields()
    name = found["volumeName"].text() if "volumeName" in found else "shm"
    limit = {"sizeLimit": found["size"].text()} if "size" in found and found["size"].text() else {}
    settings.pod.setdefault("volumes", []).append({"name": name, "emptyDir": {"medium": "Memory", **limit}})
    settings.main.setdefault("volumeMounts", []).append({"name": name, "mountPath": "/dev/shm"})


def _field_path(settings: PodSettings, value: Value) -> None:
    path = value.need("fieldPath", "a field of the pod").text()
    settings.variable(value.need("name", "the name of a variable"), {"fieldRef": {"fieldPath": path}})


def _pull_secret(settings: PodSettings, value: Value) -> None:
    name = settings.named(value, "secretName", "secretNameParameter")
    settings.pod.setdefault("imagePullSecrets", []).append({"name": name})


def _node_selector(settings: PodSettings, value: Value) -> None:
    found = value.fields()
    labels = found["labels"].strings() if "labels" in found else {}
    if "nodeSelectorJson" in found:
        settings.pod["nodeSelector"] = settings.read_later(found["nodeSelectorJson"])
    elif labels:
        settings.pod["nodeSelector"] = labels


def _toleration(settings: PodSettings, value: Value) -> None:
    found = value.fields()
    if "tolerationJson" in found:
        toleration = settings.read_later(found["tolerationJson"])
    else:
        toleration = {name: each.data for name, each in found.items()}
    settings.pod.setdefault("tolerations", []).append(toleration)


def _metadata(settings: PodSettings, value: Value) -> None:
    found = value.fields()
    settings.metadata = {name: found[name].strings() for name in ("labels", "annotations") if name in found}


def _node_affinity(settings: PodSettings, value: Value) -> None:
    found = value.fields()
    if "nodeAffinityJson" in found:
        settings.pod.setdefault("affinity", {})["nodeAffinity"] = settings.read_later(found["nodeAffinityJson"])
        return
    term: Plain = {name: found[name].data for name in ("matchExpressions", "matchFields") if name in found}
    place = settings.pod.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    if "weight" in found:
        place.setdefault(_PREFERRED, []).append({"weight": found["weight"].integer(1), "preference": term})
    else:
        place.setdefault(_REQUIRED, {"nodeSelectorTerms": []})["nodeSelectorTerms"].append(term)


def _pod_affinity(settings: PodSettings, value: Value) -> None:
    found = value.fields()
    term: Plain = {"topologyKey": found["topologyKey"].text() if "topologyKey" in found else "kubernetes.io/hostname"}
    for of, name in (("Pod", "labelSelector"), ("Namespace", "namespaceSelector")):
        if f"match{of}Labels" in found:
            term.setdefault(name, {})["matchLabels"] = found[f"match{of}Labels"].strings()
        if f"match{of}Expressions" in found:
            term.setdefault(name, {})["matchExpressions"] = found[f"match{of}Expressions"].data
    if "namespaces" in found:
        term["namespaces"] = [each.text() for each in found["namespaces"].items()]
    anti = "anti" in found and found["anti"].boolean()
    place = settings.pod.setdefault("affinity", {}).setdefault("podAntiAffinity" if anti else "podAffinity", {})
    if "weight" in found:
        place.setdefault(_PREFERRED, []).append({"weight": found["weight"].integer(1), "podAffinityTerm": term})
    else:
        place.setdefault(_REQUIRED, []).append(term)


def _deadline(settings: PodSettings, value: Value) -> None:
    settings.deadline_seconds = value.converted(float, "a number of seconds")


def _pull_policy(settings: PodSettings, value: Value) -> None:
    settings.main["imagePullPolicy"] = value.one_of(("Always", "IfNotPresent", "Never"))


def _security(settings: PodSettings, value: Value) -> None:
    settings.main["securityContext"] = {name: each.data for name, each in value.fields().items()}


_READERS: Mapping[str, Callable[[PodSettings, Value], None]] = {
    "secretAsVolume": _volume_of("secret", "secretName", "secretName"),
    "configMapAsVolume": _volume_of("configMap", "name", "configMapName"),
    "secretAsEnv": _variables_of("secretKeyRef", "secretName", "secretKey"),
    "configMapAsEnv": _variables_of("configMapKeyRef", "configMapName", "configMapKey"),
    "pvcMount": _each(_claim),
    "emptyDirMounts": _each(_empty_dir),
    "genericEphemeralVolume": _each(_ephemeral),
    "enabledSharedMemory": _shared_memory,
    "fieldPathAsEnv": _each(_field_path),
    "imagePullSecret": _each(_pull_secret),
    "imagePullPolicy": _pull_policy,
    "nodeSelector": _node_selector,
    "tolerations": _each(_toleration),
    "nodeAffinity": _each(_node_affinity),
    "podAffinity": _each(_pod_affinity),
    "podMetadata": _metadata,
    "activeDeadlineSeconds": _deadline,
    "securityContext": _security,
}
