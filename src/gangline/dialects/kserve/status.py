"""The status of an InferenceService in KServe's words. Pure."""

import json
from typing import Any

from gangline.dialects.kserve.inference_service import API_VERSION, KIND, service_of, transformer_of
from gangline.dialects.kubeflow import time_text
from gangline.model import Timestamp
from gangline.model.kinds.inference_service import InferenceService, TransformerStatus
from gangline.model.kinds.service import ServiceSpec, ServiceStatus

Plain = dict[str, Any]
_UNSEEN = ("Unknown", "NotObserved", "the spec was changed")
_WORSE = ("True", "Unknown", "False")
_MODEL_STATES = {"True": "Loaded", "Unknown": "Loading", "False": "FailedToLoad"}


def inference_service_to_object(record: InferenceService, *, observed: bool) -> Plain:
    """Write the whole object. ``observed``: its newest spec is the one that its status speaks of."""
    manifest = json.loads(record.spec.manifest_json)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            **{name: part for name, part in manifest["metadata"].items() if name in ("labels", "annotations")},
            "name": record.name,
            "namespace": record.spec.tenant,
            "uid": str(record.id),
            "resourceVersion": str(max(record.version, 1)),
            "generation": record.spec.generation,
            "creationTimestamp": time_text(record.created_at),
        },
        "spec": manifest["spec"],
        "status": inference_service_to_status(record, observed=observed),
    }


def inference_service_to_status(record: InferenceService, *, observed: bool) -> Plain:
    """Write how an InferenceService is doing."""
    status = record.status
    parts = _parts(record)
    found = {part: _readiness(each) if observed else _UNSEEN for part, (_, each) in parts.items()}
    worst = max(found.values(), key=lambda each: _WORSE.index(each[0]))
    at = time_text(max((each.events[-1].at for _, each in parts.values() if each.events), default=record.created_at))
    whole_kinds = ("IngressReady", "LatestDeploymentReady", "Ready", "RoutesReady")
    told = {**dict.fromkeys(whole_kinds, worst), **{f"{part.capitalize()}Ready": each for part, each in found.items()}}
    model_ready = found["predictor"][0]
    whole: Plain = {
        "observedGeneration": record.spec.generation if observed else record.spec.generation - 1,
        "conditions": [_condition(kind, *told[kind], at) for kind in sorted(told)],
        "components": {part: _component(f"{record.name}-{part}", *each) for part, each in parts.items()},
        "modelStatus": {
            "transitionStatus": _transition(status, model_ready),
            "states": {
                "activeModelState": "Loaded" if status.ready else "",
                "targetModelState": _MODEL_STATES[model_ready],
            },
            "copies": {"totalCopies": status.ready, "failedCopies": 0},
        },
    }
    front = [*parts.values()][-1][1]
    if front.address and front.last_number:
        whole |= {"url": front.address, "address": {"url": front.address}}
    return whole


def _parts(record: InferenceService) -> dict[str, tuple[ServiceSpec, ServiceStatus]]:
    """What it consists of, and how each is doing; requests go to the last."""
    parts: dict[str, tuple[ServiceSpec, ServiceStatus]] = {"predictor": (service_of(record.spec), record.status)}
    transformer = transformer_of(record.spec, record.status.address)
    if transformer is not None:
        parts["transformer"] = (transformer, record.status.transformer or TransformerStatus())
    return parts


def refused_status(message: str, at: Timestamp) -> Plain:
    """Say why a document is not served."""
    return {"conditions": [_condition("Ready", "False", "InvalidSpec", message, time_text(at))]}


def _readiness(status: ServiceStatus) -> tuple[str, str, str]:
    wanted, rollout = status.revision(status.wanted), status.rollout
    if status.problem:
        return "False", "Blocked", status.problem
    if wanted is not None and wanted.failed and wanted.number != status.current:
        return "False", "RevisionFailed", wanted.failed
    if rollout is not None and rollout.since is None:
        return "Unknown", "RollingOut", f"revision {rollout.revision} is not ready yet"
    if status.current and (status.ready or not status.scale):
        return "True", "", ""
    return "Unknown", "NotReady", "no replica is ready yet"


def _transition(status: ServiceStatus, ready: str) -> str:
    if ready == "False":
        return "BlockedByFailedLoad"
    return "UpToDate" if ready == "True" and status.rollout is None else "InProgress"


def _component(name: str, spec: ServiceSpec, status: ServiceStatus) -> Plain:
    def called(number: int) -> str:
        return f"{name}-{number:05}"

    rollout, steps = status.rollout, spec.rollout.steps
    shares = [(status.current, 100, True)] if status.current else []
    if rollout is not None:
        share = steps[rollout.step] if rollout.since is not None and rollout.step < len(steps) else 0
        shares = [(rollout.revision, share, True), (status.current, 100 - share, False)]
    part: Plain = {
        "traffic": [
            {"revisionName": called(number), "percent": percent, "latestRevision": newest}
            | ({} if newest else {"tag": "prev"})
            for number, percent, newest in shares
        ]
    }
    if status.last_number:
        part["latestCreatedRevision"] = called(status.last_number)
    if status.current and (status.ready or not status.scale):
        part["latestReadyRevision"] = called(rollout.revision if rollout and rollout.since else status.current)
        part["latestRolledoutRevision"] = called(status.current)
    if status.previous:
        part["previousRolledoutRevision"] = called(status.previous)
    if status.address:
        part["url"] = status.address
        part["address"] = {"url": status.address}
    return part


def _condition(kind: str, status: str, reason: str, message: str, at: str) -> Plain:
    condition: Plain = {"type": kind, "status": status, "lastTransitionTime": at}
    if reason:
        condition |= {"reason": reason, "message": message}
    return condition if status != "False" else {**condition, "severity": "Error"} if kind != "Ready" else condition
