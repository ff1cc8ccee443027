"""What a step's container gets besides its command: image, amounts and the template of its pod, with inputs put in."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gangline.errors import InvalidInputError
from gangline.model.resources import Resources
from gangline.pipelines.graph import Container
from gangline.pipelines.placeholders import Flow, RunInfo, constant_text, filled
from gangline.pipelines.values import Json, MisfitError

READ = "$read"
"""The only key of what stands in a template for the value that its text is, in JSON, once it is filled in."""
STEP_CPU_MILLIS = 100
"""What a step that does not say what it needs counts for."""
_OF_THE_POD = {
    "KUBERNETES_AFFINITY": ("affinity",),
    "KUBERNETES_TOLERATIONS": ("tolerations",),
    "KUBERNETES_NODE_SELECTOR": ("nodeSelector",),
    "KUBERNETES_VOLUMES": ("volumes",),
}
_OF_THE_CONTAINER = {"KUBERNETES_VOLUMES": ("volumeMounts",), "ENV": ("env",)}
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything filled in; ``told`` is what the program learns of it as its ``TASK_CONFIG``."""

    image: str | None
    env: Mapping[str, str]
    resources: Resources
    pod: Mapping[str, Json]
    told: Mapping[str, Json]


def settings_of(body: Container, inputs: Mapping[str, Flow], info: RunInfo, task: str) -> Settings:
    """Fill in what inputs decide; raises MisfitError for what does not fit."""

    def put_in(text: str) -> str:
        return constant_text(text, inputs, info, task)

    try:
        given = body.resources(put_in) if callable(body.resources) else body.resources
    except InvalidInputError as error:
        raise MisfitError(str(error)) from None
    pod: dict[str, Any] = _read(filled(body.pod, inputs, info, task))
    env = {name: put_in(text) for name, text in body.env.items()}
    told = _told(body, pod, given, env)
    kept = {name for name, also in body.passes.items() if not also}
    return Settings(
        image=None if body.image is None else put_in(body.image) or None,
        env={} if "ENV" in kept else env,
        resources=given if given and "RESOURCES" not in kept else Resources(cpu_millis=STEP_CPU_MILLIS),
        pod=_without(pod, kept),
        told=told,
    )


def _read(value: Json) -> Json:
    """Put values in the place of texts that are JSON; what is empty is left out, lists within lists are joined."""
    if isinstance(value, Mapping):
        if value.keys() == {READ}:
            return _parsed(str(value[READ]))
        found = {name: _read(item) for name, item in value.items()}
        return {name: item for name, item in found.items() if item is not _ABSENT}
    if not isinstance(value, list):
        return value
    items = [(_read(item), isinstance(item, Mapping) and item.keys() == {READ}) for item in value]
    several = [item if later and isinstance(item, list) else [item] for item, later in items if item is not _ABSENT]
    return [each for item in several for each in item]


def _parsed(text: str) -> Json:
    if not text.strip() or text == "null":
        return _ABSENT
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict | list):
        raise MisfitError(f"'{text[:80]}' is not a mapping or a list in JSON, which a setting of the pod should be")
    return found or _ABSENT


def _told(
    body: Container, pod: Mapping[str, Json], resources: Resources | None, env: Mapping[str, str]
) -> dict[str, Json]:
    spec = pod.get("spec") or {}
    main = (spec.get("containers") or [{}])[0]
    found: dict[str, Json] = {}
    for field in body.passes:
        found |= {name: spec[name] for name in _OF_THE_POD.get(field, ()) if name in spec}
        found |= {name: main[name] for name in _OF_THE_CONTAINER.get(field, ()) if name in main}
    if "ENV" in body.passes:
        plain = [{"name": name, "value": value} for name, value in env.items()]
        found["env"] = [*plain, *found.get("env", ())]
    if "RESOURCES" in body.passes and resources is not None:
        found["resources"] = _amounts(resources)
    return found


def _amounts(resources: Resources) -> dict[str, Json]:
    shown = {
        "cpu": f"{resources.cpu_millis}m" if resources.cpu_millis else "",
        "memory": f"{resources.memory_mib}Mi" if resources.memory_mib else "",
        "nvidia.com/gpu": str(resources.gpu_millis // 1000) if resources.gpu_millis else "",
    }
    given = {name: text for name, text in shown.items() if text}
    given |= {name: str(amount) for name, amount in resources.extended.items()}
    return {"limits": given, "requests": given}


def _without(pod: Mapping[str, Json], fields: set[str]) -> dict[str, Json]:
    """Leave out what is only passed on."""
    if not fields or "spec" not in pod:
        return dict(pod)
    outer = {name for field in fields for name in _OF_THE_POD.get(field, ())}
    inner = {name for field in fields for name in _OF_THE_CONTAINER.get(field, ())}
    spec = {name: part for name, part in pod["spec"].items() if name not in outer}
    if spec.get("containers"):
        main, *others = spec["containers"]
        spec["containers"] = [{name: part for name, part in main.items() if name not in inner}, *others]
    return {**pod, "spec": spec}
