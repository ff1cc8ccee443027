"""``runPolicy``: when a job gives up, when it is cleaned up, how it is queued."""

from collections.abc import Mapping
from dataclasses import dataclass

from gangline.dialects.native.fields import PRIORITIES
from gangline.dialects.translation import CleanPods
from gangline.dialects.value import Value
from gangline.model import DEFAULT_QUEUE, QueueName
from gangline.model.identity import check_name

OURS = ("kubeflow.org/training-operator", "kubeflow.org/mpi-operator")
MULTIKUEUE = "kueue.x-k8s.io/multikueue"

_LIMITS = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
OLD_SPEC_FIELDS = _LIMITS
"""Fields that stood in ``spec`` itself before there was a ``runPolicy``."""
RUN_POLICY_FIELDS = (*_LIMITS, "schedulingPolicy", "suspend", "managedBy")
SCHEDULING_FIELDS = ("minAvailable", "queue", "minResources", "priorityClass", "scheduleTimeoutSeconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPolicy:
    """``runPolicy`` as given. ``backoff_limit`` None means that upstream would try without end."""

    clean_pods: CleanPods = CleanPods.NONE
    ttl_seconds: int | None = None
    deadline_seconds: int | None = None
    backoff_limit: int | None = None
    suspended: bool = False
    managed_by: str | None = None
    minimum_available: int | None = None
    queue: QueueName = DEFAULT_QUEUE
    priority_class: str | None = None
    notes: tuple[str, ...] = ()


def read_run_policy(spec: Mapping[str, Value], *, clean_pods: CleanPods) -> RunPolicy:
    """Read ``spec.runPolicy`` and its fields of old that stood in ``spec``; ``clean_pods`` is the version's default."""
    given = spec["runPolicy"].fields(RUN_POLICY_FIELDS) if "runPolicy" in spec else {}
    old = {name: spec[name] for name in OLD_SPEC_FIELDS if name in spec}
    notes = [f"spec.{name}: write spec.runPolicy.{name} today" for name in old if name not in given]
    given = {**old, **given}
    scheduling = given["schedulingPolicy"].fields(SCHEDULING_FIELDS) if "schedulingPolicy" in given else {}
    for name in ("minResources", "scheduleTimeoutSeconds"):
        if name in scheduling:
            notes.append(f"{scheduling[name].path}: not used; a gang waits in its queue until it fits")
    return RunPolicy(
        clean_pods=given["cleanPodPolicy"].choice(CleanPods) if _says(given, "cleanPodPolicy") else clean_pods,
        ttl_seconds=_whole(given, "ttlSecondsAfterFinished"),
        deadline_seconds=_whole(given, "activeDeadlineSeconds"),
        backoff_limit=_whole(given, "backoffLimit"),
        suspended="suspend" in given and given["suspend"].boolean(),
        managed_by=_manager(given),
        minimum_available=_whole(scheduling, "minAvailable"),
        queue=_queue(scheduling),
        priority_class=scheduling["priorityClass"].text() if "priorityClass" in scheduling else None,
        notes=tuple(notes),
    )


def priority_of(priority_class: str | None) -> tuple[int, tuple[str, ...]]:
    """The priority a class name stands for, and a remark if that is a guess."""
    if not priority_class:
        return PRIORITIES["normal"], ()
    word = priority_class.lower().removesuffix("-priority").removesuffix("-priority-class")
    if word in PRIORITIES:
        return PRIORITIES[word], ()
    known = ", ".join(PRIORITIES)
    return PRIORITIES["normal"], (f"priority class '{priority_class}' is not one of {known}: taken as normal",)


def _says(given: Mapping[str, Value], name: str) -> bool:
    """Whether a field is given and not the empty string, which upstream takes for absent."""
    return name in given and given[name].data != ""


def _whole(given: Mapping[str, Value], name: str) -> int | None:
    return given[name].integer(0) if name in given else None


def _manager(given: Mapping[str, Value]) -> str | None:
    if "managedBy" not in given:
        return None
    manager = given["managedBy"].one_of((*OURS, MULTIKUEUE))
    return None if manager in OURS else manager


def _queue(scheduling: Mapping[str, Value]) -> QueueName:
    if not _says(scheduling, "queue"):
        return DEFAULT_QUEUE
    with scheduling["queue"].located():
        check_name(scheduling["queue"].text(), "")
    return QueueName(scheduling["queue"].text())
