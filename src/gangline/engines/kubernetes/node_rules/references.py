"""Which ConfigMaps and Secrets the pods of a job cannot start without, by their templates. Pure."""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from gangline.model import JobSpec, RoleName

_WORDS = ("onfigMap", "ecret")
_SOURCES = {
    "configMap": ("ConfigMap", "name"),
    "configMapRef": ("ConfigMap", "name"),
    "configMapKeyRef": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "secretRef": ("Secret", "name"),
    "secretKeyRef": ("Secret", "name"),
}
"""How a template names an object: the field, the kind it means, and where the name stands."""


class Reference(NamedTuple):
    """An object of the pod's own namespace."""

    kind: str
    name: str


def references_by_role(spec: JobSpec) -> dict[RoleName, tuple[Reference, ...]]:
    """Name what every role needs that needs anything; what a template calls optional is not needed."""
    found = {role.name: _of_template(role.pod_template_json or "") for role in spec.roles}
    return {role: references for role, references in found.items() if references}


@lru_cache(maxsize=1024)
def _of_template(text: str) -> tuple[Reference, ...]:
    """Asked of every waiting job in every cycle; most templates name none."""
    if not any(word in text for word in _WORDS):
        return ()
    pod = json.loads(text).get("spec") or {}
    return tuple(sorted({reference for part in _parts(pod) for reference in _named(part)}))


def _parts(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a pod that may name an object. A missing pull secret keeps no pod from starting."""
    for volume in pod.get("volumes") or ():
        yield volume
        yield from _sources((volume.get("projected") or {}).get("sources") or ())
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        yield from container.get("envFrom") or ()
        yield from (variable.get("valueFrom") or {} for variable in container.get("env") or ())


def _sources(sources: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The sources of a projected volume, in which a Secret's name is spelled like a ConfigMap's."""
    for source in sources:
        secret = source.get("secret") or {}
        yield {**source, "secret": {**secret, "secretName": secret.get("name")}}


def _named(part: dict[str, Any]) -> Iterator[Reference]:
    for field, (kind, where) in _SOURCES.items():
        source = part.get(field) or {}
        if source.get(where) and not source.get("optional"):
            yield Reference(kind, source[where])
