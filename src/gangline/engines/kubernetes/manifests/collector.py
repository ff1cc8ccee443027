"""The container that reads numbers out of files or a port of a program that knows nothing of Gangline. Pure.

It is a sidecar that starts before the program and is stopped after it, when it looks once more. What it finds it writes
to its own output, which the engine reads beside the program's.
"""

import json
from dataclasses import asdict
from typing import Any

from gangline.engines.kubernetes.manifests.moves import expanded
from gangline.engines.kubernetes.manifests.pod import DEFAULT_CONTAINER, Plain, literal
from gangline.model import JobSpec
from gangline.model.kinds.experiment import COLLECTOR_ANNOTATION, COLLECTOR_VARIABLE
from gangline.runtime.collecting import READY_VARIABLE
from gangline.runtime.pushed_metrics import PORT

COLLECTOR_CONTAINER = "gangline-collector"
SOURCES = "Sources"
"""The kind that reads what ``spec.metrics`` names; numbers that the program reports itself count beside them."""
_PUSH, _SCRAPED = "Push", "PrometheusMetric"
_BESIDE = ("File", "TensorFlowEvent", _SCRAPED, _PUSH, SOURCES)
_READY = "/dev/termination-log"
"""A file of every container that may be written whatever else may not, and is empty at first."""
_IS_READY = ["test", "-s", _READY]
_DB_MANAGER = "katib-db-manager.kubeflow"
"""Where Katib's clients push metrics to; in the pod of a trial that is the collector beside it."""


def with_sources(pod: Plain, spec: JobSpec) -> Plain:
    """Tell the pod of a lead replica which files ``spec.metrics`` names."""
    if not spec.metrics:
        return pod
    sources = [{**asdict(each), "path": expanded(each.path, spec)} for each in spec.metrics]
    order = json.dumps({"kind": SOURCES, "sources": sources})
    metadata = pod["metadata"]
    annotations = {COLLECTOR_ANNOTATION: order, **(metadata.get("annotations") or {})}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def with_collector(pod: Plain, image: str | None) -> Plain:
    """Return a pod with its collector, if its numbers are to be read from inside it."""
    order = collector_of(pod["metadata"].get("annotations") or {})
    if image is None or order.get("kind") not in _BESIDE:
        return pod
    spec = pod["spec"]
    trains = pod["metadata"]["annotations"].get(DEFAULT_CONTAINER)
    containers = spec["containers"]
    main = next((each for each in containers if each.get("name") == trains), containers[0])
    mounts = [each for each in main.get("volumeMounts") or () if any(holds(each, path) for path in _paths(order))]
    module = "gangline.engines.collecting.beside" if order["kind"] == SOURCES else "gangline.runtime.collecting"
    collector: Plain = {
        "name": COLLECTOR_CONTAINER,
        "image": image,
        "restartPolicy": "Always",
        "command": ["python3", "-m", module],
        "env": [
            {"name": COLLECTOR_VARIABLE, "value": literal(json.dumps(order))},
            {"name": "GANGLINE_METRICS", "value": "/dev/stdout"},
            {"name": READY_VARIABLE, "value": _READY},
        ],
        "volumeMounts": [{**each, "readOnly": True} for each in mounts],
    }
    if "securityContext" in main:
        collector["securityContext"] = main["securityContext"]
    # The program must not begin before: one that pushes fails if nobody listens, and a collector that is told to stop
    # while it starts would not look at all.
    started: Plain = {"tcpSocket": {"port": PORT}} if order["kind"] == _PUSH else {"exec": {"command": _IS_READY}}
    collector["startupProbe"] = {**started, "periodSeconds": 1, "failureThreshold": 120}
    spec = {**spec, "initContainers": [*(spec.get("initContainers") or ()), collector]}
    if order["kind"] == _PUSH:
        alias = {"ip": "127.0.0.1", "hostnames": [_DB_MANAGER]}
        spec["hostAliases"] = [*(spec.get("hostAliases") or ()), alias]
    return {**pod, "spec": spec}


def collector_of(annotations: dict[str, str]) -> dict[str, Any]:
    """Return what the numbers of a pod are read from; nothing for most pods."""
    try:
        order = json.loads(annotations.get(COLLECTOR_ANNOTATION) or "{}")
    except ValueError:
        return {}
    return order if isinstance(order, dict) else {}


def _paths(order: dict[str, Any]) -> list[str]:
    """Every file or folder that a collector reads."""
    if order["kind"] == SOURCES:
        return [str(each.get("path")) for each in order.get("sources") or () if isinstance(each, dict)]
    path = str(order.get("path") or "")
    return [path] if path and order["kind"] != _SCRAPED else []


def holds(mount: Plain, path: str) -> bool:
    """Whether a path lies in what a container has mounted."""
    return f"{path}/".startswith(f"{str(mount.get('mountPath')).rstrip('/')}/")
