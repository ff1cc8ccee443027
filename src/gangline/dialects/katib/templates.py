"""``spec.trialTemplate``: the object that every trial is made from, and where its values go."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gangline.dialects.document import compact_json
from gangline.dialects.kubeflow import KINDS
from gangline.dialects.native import API_VERSION as NATIVE_VERSION
from gangline.dialects.trainer import API_VERSION as TRAINER_VERSION
from gangline.dialects.trainer import TRAIN_JOB
from gangline.dialects.value import Value

BATCH_VERSION = "batch/v1"
RUNTIME_FIELD = "runtime"
"""Where the runtime of a TrainJob is kept, once it is found: beside ``spec``, in the object of the template."""
_FIELDS = (
    "retain",
    "trialSpec",
    "configMap",
    "trialParameters",
    "primaryPodLabels",
    "primaryContainerName",
    "successCondition",
    "failureCondition",
)
_REFERENCE = re.compile(r"\$\{trialParameters\.(.+?)\}")
_META = re.compile(r"\$\{trialSpec\.(Name|Namespace|Kind|APIVersion|(?:Annotations|Labels)\[(.+)\])\}")
_ENDED = 'status.conditions.#(type=="{}")#|#(status=="True")#'
_OTHERS = {"Workflow": "Argo", "PipelineRun": "Tekton"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialParameter:
    """A name in the template, and the parameter or the part of the trial's own metadata that it stands for."""

    name: str
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapSource:
    """A ConfigMap that holds the template."""

    name: str
    namespace: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTemplate:
    """The object that trials are made from. ``spec_json`` is None while only its ConfigMap is known."""

    spec_json: str | None
    config_map: ConfigMapSource | None = None
    parameters: tuple[TrialParameter, ...] = ()
    container: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    success: str
    failure: str
    retain: bool = False

    def with_runtime(self, manifest_json: str) -> str:
        """Return the object of a template of TrainJobs with the runtime that they are run with."""
        return compact_json({**json.loads(self.spec_json or "{}"), RUNTIME_FIELD: json.loads(manifest_json)})

    def rendered(self, values: Mapping[str, str], *, name: str, namespace: str) -> dict[str, Any]:
        """Return the object of one trial, with its values and its name."""
        made: dict[str, Any] = json.loads(self.spec_json or "{}")
        metadata = made.get("metadata") or {}
        known = {
            each.name: values[each.reference]
            if each.reference in values
            else _meta(each.reference, made, name=name, namespace=namespace)
            for each in self.parameters
        }
        found: dict[str, Any] = _replaced({**made, "metadata": metadata}, known)
        return {**found, "metadata": {**found["metadata"], "name": name, "namespace": namespace}}


def read_template(value: Value, names: Sequence[str]) -> TrialTemplate:
    """Read ``spec.trialTemplate``; ``names`` are the parameters there are."""
    given = value.fields(_FIELDS)
    for needed in ("primaryContainerName", "trialParameters"):
        if needed not in given:
            raise value.missing(needed, "it must be specified")
    if ("trialSpec" in given) == ("configMap" in given):
        said = "both trialSpec and configMap are given" if "configMap" in given else "there is no template"
        raise value.wrong(said, expected="one of trialSpec and configMap")
    parameters = _parameters(given["trialParameters"], names)
    template = TrialTemplate(
        spec_json=None,
        config_map=_config_map(given["configMap"]) if "configMap" in given else None,
        parameters=parameters,
        container=given["primaryContainerName"].text(),
        pod_labels=given["primaryPodLabels"].strings() if "primaryPodLabels" in given else {},
        success=given["successCondition"].text() if "successCondition" in given else "",
        failure=given["failureCondition"].text() if "failureCondition" in given else "",
        retain="retain" in given and given["retain"].boolean(),
    )
    if "trialSpec" in given:
        if RUNTIME_FIELD in given["trialSpec"].fields():
            raise given["trialSpec"].fields()[RUNTIME_FIELD].wrong("the field is not known", expected="no such field")
        return resolved(template, given["trialSpec"])
    return replace(template, success=template.success or "status", failure=template.failure or "status")


def resolved(template: TrialTemplate, value: Value) -> TrialTemplate:
    """Return a template with its object, which is checked."""
    top = value.fields()
    for needed in ("apiVersion", "kind"):
        if needed not in top:
            raise value.missing(needed, "it must be specified")
    kind = _kind(top)
    metadata = top["metadata"].fields() if "metadata" in top else {}
    for name in ("name", "namespace"):
        if name in metadata:
            raise metadata[name].wrong("every trial has its own", expected="no such field")
    _check_references(value, template.parameters)
    words = ("Succeeded", "Failed") if kind in KINDS else ("Complete", "Failed")
    return replace(
        template,
        spec_json=compact_json(value.data),
        success=template.success if template.success not in ("", "status") else _ENDED.format(words[0]),
        failure=template.failure if template.failure not in ("", "status") else _ENDED.format(words[1]),
    )


def _kind(top: Mapping[str, Value]) -> str:
    kind, version = top["kind"].text(), top["apiVersion"].text()
    known = {"Job": (BATCH_VERSION, NATIVE_VERSION), TRAIN_JOB: (TRAINER_VERSION,)}
    known |= {name: each.versions for name, each in KINDS.items()}
    if kind not in known:
        whose = f" of {_OTHERS[kind]}" if kind in _OTHERS else ""
        raise top["kind"].wrong(f"a trial cannot be a {kind}{whose}", expected=f"one of {', '.join(known)}")
    if version not in known[kind]:
        raise top["apiVersion"].wrong(
            f"'{version}' is not known for kind {kind}", expected=f"one of {', '.join(known[kind])}"
        )
    return kind


def _parameters(value: Value, names: Sequence[str]) -> tuple[TrialParameter, ...]:
    found = list[TrialParameter]()
    for each in value.items():
        given = each.fields(("name", "reference", "description"))
        for needed in ("name", "reference"):
            if needed not in given or not given[needed].data:
                raise each.missing(needed, "name and reference")
        name, reference = given["name"].text(), given["reference"].text()
        if "{" in name or "}" in name:
            raise given["name"].wrong(f"'{name}' has a brace", expected="a name without '{' and '}'")
        if name in [one.name for one in found]:
            raise given["name"].wrong(f"'{name}' is there twice", expected="different names")
        if reference in [one.reference for one in found]:
            raise given["reference"].wrong(f"'{reference}' is referred to twice", expected="different references")
        if reference not in names and not _META.fullmatch(reference):
            raise given["reference"].wrong(
                f"'{reference}' is not in spec.parameters",
                expected=f"one of {', '.join(names)}, or ${{trialSpec.Name}}",
            )
        found.append(TrialParameter(name=name, reference=reference))
    return tuple(found)


def _check_references(value: Value, parameters: Sequence[TrialParameter]) -> None:
    used = set(_REFERENCE.findall(json.dumps(value.data)))
    known = {each.name for each in parameters}
    for name in sorted(used - known):
        raise value.wrong(
            f"${{trialParameters.{name}}} is not in trialParameters", expected=f"one of {', '.join(sorted(known))}"
        )
    for name in sorted(known - used):
        raise value.wrong(
            f"nothing refers to the trialParameter '{name}'", expected=f"${{trialParameters.{name}}} somewhere in it"
        )


def _config_map(value: Value) -> ConfigMapSource:
    given = value.fields(("configMapName", "configMapNamespace", "templatePath"))
    for needed in ("configMapName", "configMapNamespace", "templatePath"):
        if needed not in given:
            raise value.missing(needed, "configMapName, configMapNamespace and templatePath")
    return ConfigMapSource(
        name=given["configMapName"].text(),
        namespace=given["configMapNamespace"].text(),
        path=given["templatePath"].text(),
    )


def _meta(reference: str, made: Mapping[str, Any], *, name: str, namespace: str) -> str:
    match = _META.fullmatch(reference)
    if match is None:
        return ""
    metadata = made.get("metadata") or {}
    if match[2] is not None:
        table = metadata.get("labels" if match[1].startswith("Labels") else "annotations") or {}
        return str(table.get(match[2], ""))
    facts = {"Name": name, "Namespace": namespace, "Kind": made.get("kind"), "APIVersion": made.get("apiVersion")}
    return str(facts[match[1]] or "")


def _replaced(data: Any, known: Mapping[str, str]) -> Any:
    if isinstance(data, str):
        return _REFERENCE.sub(lambda match: known.get(match[1], match[0]), data)
    if isinstance(data, Mapping):
        return {name: _replaced(each, known) for name, each in data.items()}
    return [_replaced(each, known) for each in data] if isinstance(data, list) else data
