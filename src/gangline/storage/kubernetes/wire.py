"""Jobs and queues as custom resources, and back. Pure.

The spec of the object is the job file's own, so that ``kubectl apply -f job.yaml`` works; only what a Kubernetes
object keeps elsewhere moves: the tenant is the namespace, the queue and the priority stand in the spec. The status
shows people where the job is (phase, conditions, history) and holds the whole record under ``state``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from gangline.dialects.document import plain
from gangline.dialects.native import API_VERSION, KIND, job_from_plain, job_to_plain
from gangline.dialects.native.amounts import read_resources, resources_to_plain
from gangline.errors import InvalidInputError, StorageError
from gangline.kube import GenericObject
from gangline.lifecycle import new_job
from gangline.model import (
    ACTIVE_PHASES,
    Job,
    JobId,
    JobSpec,
    Phase,
    PhaseEntry,
    Queue,
    QueueName,
    ReplicaState,
    Resources,
    Tenant,
    Timestamp,
)
from gangline.storage.interface import Record
from gangline.storage.kubernetes.explanations import plain_to_explanation
from gangline.storage.kubernetes.records import Kept, RecordKind

JOB_ID = "gangline.dev/job-id"
NAME = "gangline.dev/name"
"""A label with the job's name, where the object has another because a namesake is still being deleted."""
INITIAL = "gangline.dev/initial"
"""An annotation with the state a job is born with: one write makes job and record."""
FINALIZER = "gangline.dev/job"
"""Holds a deleted job until its gang is gone and what it held is free."""
JOURNAL_LENGTH = 1000
"""The newest records that are kept; the object must stay far below what etcd takes."""

_SPEC_EXTRAS = ("queue", "priority", "origin", "manifest")
_OWN_LABELS = (JOB_ID, NAME)
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_READY = frozenset({ReplicaState.RUNNING, ReplicaState.SUCCEEDED})
_STATE_FIELDS = tuple(item.name for item in fields(Job) if item.name not in ("spec", "version"))


def job_to_object(job: Job, records: Sequence[Record], *, namespace: str, name: str) -> dict[str, Any]:
    """Write a new job. The server takes no status at creation, so the first state travels as an annotation."""
    labels = {JOB_ID: job.id, **checked_labels(job.spec.labels)}
    if name != job.name:
        labels[NAME] = job.name
    initial = initial_record(job, records)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {INITIAL: msgspec.json.encode(initial).decode()},
            "finalizers": [FINALIZER],
        },
        "spec": spec_to_plain(job.spec),
    }


def object_to_job(item: GenericObject, tenant: Tenant, kind: RecordKind) -> Kept:
    """Read a job object, whoever made it; raises StorageError if its record is damaged or its spec is no job."""
    metadata = item.metadata
    initial = metadata.annotations.get(INITIAL)
    kept: dict[str, Any] = item.status if "state" in item.status else msgspec.json.decode(initial) if initial else {}
    try:
        spec = plain_to_spec(item, tenant)
        if "state" in kept:
            job = msgspec.convert({**kept["state"], "spec": msgspec.to_builtins(spec)}, Job)
        else:
            job = _newborn(item, spec)
        journal = tuple(msgspec.convert(record, Record) for record in kept.get("journal") or ())
    except (msgspec.MsgspecError, InvalidInputError) as error:
        raise StorageError(f"job '{metadata.namespace}/{metadata.name}' cannot be read: {error}") from error
    return Kept(
        kind=kind,
        job=replace(job, version=int(metadata.resource_version)),
        journal=journal,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        finalizers=tuple(metadata.finalizers),
        being_deleted=metadata.deletion_timestamp is not None,
        told=plain_to_explanation(item.status.get("explanation")),
        recorded="state" in item.status,
    )


def _newborn(item: GenericObject, spec: JobSpec) -> Job:
    """A job that somebody applied by hand: it begins its life when it was created."""
    return new_job(id_of(item), spec, created_at(item))


def id_of(item: GenericObject) -> JobId:
    """The job's id: the one it was submitted with or, applied by hand, the object's."""
    return JobId(item.metadata.labels.get(JOB_ID) or item.metadata.uid)


def created_at(item: GenericObject) -> Timestamp:
    """When the object was made."""
    created = item.metadata.creation_timestamp
    return Timestamp(created.timestamp() if created is not None else 0.0)


def spec_to_plain(spec: JobSpec) -> dict[str, Any]:
    """Write a spec as the object's: the job file's, with queue, priority and origin inside."""
    whole: dict[str, Any] = job_to_plain(spec)
    extras = {name: whole["metadata"][name] for name in _SPEC_EXTRAS if name in whole["metadata"]}
    return {**extras, **whole["spec"]}


def plain_to_spec(item: GenericObject, tenant: Tenant) -> JobSpec:
    """Read the object's spec as a job file; raises InvalidInputError naming the field."""
    labels = {key: value for key, value in item.metadata.labels.items() if key not in _OWN_LABELS}
    metadata: dict[str, Any] = {
        "name": item.metadata.labels.get(NAME, item.metadata.name),
        "tenant": tenant,
        "labels": labels,
        **{name: item.spec[name] for name in _SPEC_EXTRAS if name in item.spec},
    }
    body = {name: value for name, value in item.spec.items() if name not in _SPEC_EXTRAS}
    return job_from_plain({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": body})


def job_to_status(job: Job, journal: Sequence[Record]) -> dict[str, Any]:
    """Write the status: what people read, and the whole record."""
    present = sum(1 for status in job.replicas if status.state in _READY)
    total = len(job.replicas) or sum(role.replicas for role in job.spec.roles)
    outdated = {} if job.placeable else {"explanation": None}
    return {
        **outdated,
        "phase": job.phase.value,
        "reason": job.reason,
        "message": job.message,
        "ready": f"{present}/{total}",
        "attempt": job.attempt,
        "startedAt": moment(job.started_at),
        "finishedAt": moment(job.finished_at),
        "conditions": _conditions(job),
        "history": [
            {"phase": entry.phase.value, "at": moment(entry.at), "reason": entry.reason, "message": entry.message}
            for entry in job.history
        ],
        "journal": journal_to_plain(journal),
        "state": state_of(job),
    }


def journal_to_plain(journal: Sequence[Record]) -> list[Any]:
    """Write the newest records of a journal."""
    return [msgspec.to_builtins(record) for record in journal[-JOURNAL_LENGTH:]]


def appended(journal: Sequence[Record], records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the journal with more records, numbered on."""
    last = journal[-1].number if journal else 0
    return (*journal, *(replace(record, number=last + place) for place, record in enumerate(records, start=1)))


def _numbered(records: Sequence[Record], *, after: int) -> list[Any]:
    numbered = (replace(record, number=after + place) for place, record in enumerate(records, start=1))
    return [msgspec.to_builtins(record) for record in numbered]


def state_of(job: Job) -> dict[str, Any]:
    """Write the record beside the spec. What is not set is null: in a merge patch that removes what was set before."""
    whole: dict[str, Any] = msgspec.to_builtins(job)
    return {name: whole[name] for name in _STATE_FIELDS}


def initial_record(job: Job, records: Sequence[Record]) -> dict[str, Any]:
    """Write the state a job is born with, for its annotation."""
    state = {name: value for name, value in state_of(job).items() if value is not None}
    return {"state": state, "journal": _numbered(records, after=0)}


def _conditions(job: Job) -> list[dict[str, Any]]:
    truths = {
        "Scheduled": job.phase in ACTIVE_PHASES,
        "Running": job.phase is Phase.PROCESSING,
        "Complete": job.phase is Phase.COMPLETED,
        "Failed": job.phase in (Phase.FAILED, Phase.CANCELLED),
    }
    return [
        {
            "type": name,
            "status": "True" if holds else "False",
            "reason": job.reason,
            "message": job.message,
            "lastTransitionTime": moment(_since(job, name, holds=holds).at),
        }
        for name, holds in truths.items()
    ]


def _since(job: Job, condition: str, *, holds: bool) -> PhaseEntry:
    """When the condition became what it is: the first of the last entries that agree on it."""
    groups = {
        "Scheduled": ACTIVE_PHASES,
        "Running": frozenset({Phase.PROCESSING}),
        "Complete": frozenset({Phase.COMPLETED}),
        "Failed": frozenset({Phase.FAILED, Phase.CANCELLED}),
    }
    since = job.history[-1]
    for entry in reversed(job.history):
        if (entry.phase in groups[condition]) != holds:
            break
        since = entry
    return since


def moment(at: Timestamp | None) -> str | None:
    """Write a time as Kubernetes does."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels, or refuse what Kubernetes would."""
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise InvalidInputError(
                f"'{key}: {value}' is no label that Kubernetes takes",
                field="metadata.labels",
                expected="letters, digits, '.', '_' and '-', at most 63 of them",
            )
    return dict(labels)


def queue_to_object(queue: Queue, *, name: str) -> dict[str, Any]:
    """Write a queue."""
    spec: dict[str, Any] = {
        "weight": queue.weight,
        "may_borrow": queue.may_borrow,
        "guarantee": resources_to_plain(queue.guarantee),
    }
    if queue.parent is not None:
        spec["parent"] = queue.parent
    if queue.limit is not None:
        spec["limit"] = resources_to_plain(queue.limit)
    if queue.tenants:
        spec["tenants"] = list(queue.tenants)
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def object_to_queue(item: GenericObject, *, name: str) -> Queue:
    """Read a queue, whoever wrote it."""
    try:
        return Queue(
            name=QueueName(name),
            parent=QueueName(item.spec["parent"]) if item.spec.get("parent") else None,
            weight=item.spec.get("weight", 1),
            guarantee=_resources(item.spec, "guarantee") or Resources(),
            limit=_resources(item.spec, "limit"),
            may_borrow=item.spec.get("may_borrow", True),
            tenants=tuple(map(Tenant, item.spec.get("tenants") or ())),
        )
    except InvalidInputError as error:
        raise StorageError(f"queue '{name}' cannot be read: {error}") from error


def _resources(spec: Mapping[str, Any], field: str) -> Resources | None:
    """Read amounts as a job file writes them; unlike in a role, what is not named is none."""
    if field not in spec:
        return None
    return read_resources({"resources": plain({"cpu": 0, "memory": 0, **spec[field]})}, {})
