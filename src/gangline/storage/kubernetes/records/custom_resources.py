"""Jobs as custom resources, and back. Pure.

The spec of the object is the job file's own, so that ``kubectl apply -f job.yaml`` works; only what a Kubernetes
object keeps elsewhere moves: the tenant is the namespace, the queue and the priority stand in the spec. The status
shows people where the job is (phase, conditions, history) and holds the whole record under ``record``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from gangline.dialects.native import API_VERSION, KIND, job_from_plain, job_to_plain
from gangline.errors import InvalidInputError, UnreadableRecordError
from gangline.kube import GenericObject
from gangline.model import (
    ACTIVE_PHASES,
    Job,
    JobSpec,
    JournalRecord,
    Phase,
    PhaseEntry,
    ReplicaState,
    Tenant,
    Timestamp,
)
from gangline.storage.kubernetes.records.creation import (
    JOB_ID,
    created_job,
    creation_annotations,
    first_journal,
    is_copy,
)
from gangline.storage.kubernetes.records.explanations import plain_to_explanation
from gangline.storage.kubernetes.records.record_kind import RecordKind, StoredJob
from gangline.storage.kubernetes.records.record_text import (
    FIELD,
    StoredRecord,
    read_record,
    record_to_text,
    shortened,
    stored_history,
)
from gangline.storage.kubernetes.records.started_spec import roles_in, with_roles_of

NAME = "gangline.dev/name"
"""A label with the job's name, where the object has another because a namesake is still being deleted."""
FINALIZER = "gangline.dev/job"
"""Holds a deleted job until its gang is gone and what it held is free."""

_HISTORY_SHOWN = 100
_SPEC_EXTRAS = ("queue", "priority", "origin", "manifest")
_OWN_LABELS = (JOB_ID, NAME)
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_READY = frozenset({ReplicaState.RUNNING, ReplicaState.SUCCEEDED})


def job_to_object(job: Job, records: Sequence[JournalRecord], *, namespace: str, name: str) -> dict[str, Any]:
    """Write a new job. The server takes no status at creation, so the first state travels as an annotation."""
    labels = {JOB_ID: job.id, **checked_labels(job.spec.labels)}
    if name != job.name:
        labels[NAME] = job.name
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": creation_annotations(job, records, namespace=namespace, name=name),
            "finalizers": [FINALIZER],
        },
        "spec": spec_to_plain(job.spec),
    }


def object_to_job(item: GenericObject, tenant: Tenant, kind: RecordKind) -> StoredJob:
    """Read a job object, whoever made it; raises UnreadableRecordError if record or spec cannot be read.

    One whose job has begun goes on whatever was made of its spec since, and says what is wrong with it.
    """
    metadata, complaint = item.metadata, None
    try:
        record = read_record(item.status)
        try:
            spec = plain_to_spec(item, tenant)
        except InvalidInputError as error:
            if record is None or not _must_be_known(item, record):
                raise
            complaint, spec = str(error), _last_resort(item, record, tenant)
        job = _recalled(record, spec) if record is not None else created_job(item, spec)
    except (msgspec.MsgspecError, InvalidInputError) as error:
        raise UnreadableRecordError(f"job '{metadata.namespace}/{metadata.name}' cannot be read: {error}") from error
    return StoredJob.of(
        item,
        kind=kind,
        job=job,
        journal=record.journal if record is not None else first_journal(item, job),
        told=plain_to_explanation(item.status.get("explanation")),
        recorded=FIELD in item.status,
        complaint=complaint,
    )


def _must_be_known(item: GenericObject, record: StoredRecord) -> bool:
    """Whether a job needs a spec even if its author left none: it has machines to free, or an end to come to."""
    return bool(record.state.get("holding") or record.state.get("finished_at") or item.metadata.deletion_timestamp)


def _recalled(record: StoredRecord, spec: JobSpec) -> Job:
    job = record.job(spec)
    return replace(job, spec=with_roles_of(job, spec))


def _last_resort(item: GenericObject, record: StoredRecord, tenant: Tenant) -> JobSpec:
    """Stand in for a spec that was made unreadable after its job had begun."""
    return JobSpec(name=name_of(item), tenant=tenant, roles=roles_in(record.state))


def name_of(item: GenericObject) -> str:
    """The job's name: the object's, unless a namesake that was being deleted had it when it was made."""
    labelled = None if is_copy(item) else item.metadata.labels.get(NAME)
    return labelled or item.metadata.name


def spec_to_plain(spec: JobSpec) -> dict[str, Any]:
    """Write a spec as the object's: the job file's, with queue, priority and origin inside."""
    whole: dict[str, Any] = job_to_plain(spec)
    extras = {name: whole["metadata"][name] for name in _SPEC_EXTRAS if name in whole["metadata"]}
    return {**extras, **whole["spec"]}


def plain_to_spec(item: GenericObject, tenant: Tenant) -> JobSpec:
    """Read the object's spec as a job file; raises InvalidInputError naming the field."""
    labels = {key: value for key, value in item.metadata.labels.items() if key not in _OWN_LABELS}
    metadata: dict[str, Any] = {
        "name": name_of(item),
        "tenant": tenant,
        "labels": labels,
        **{name: item.spec[name] for name in _SPEC_EXTRAS if name in item.spec},
    }
    body = {name: value for name, value in item.spec.items() if name not in _SPEC_EXTRAS}
    return job_from_plain({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": body})


def job_to_status(job: Job, journal: Sequence[JournalRecord]) -> dict[str, Any]:
    """Write the status: what people read, and the whole record."""
    present = sum(1 for status in job.replicas if status.state in _READY)
    total = len(job.replicas) or sum(role.replicas for role in job.spec.roles)
    moments = {"startedAt": moment(job.started_at), "finishedAt": moment(job.finished_at)}
    return {
        "phase": job.phase.value,
        "reason": job.reason,
        "message": shortened(job.message),
        "ready": f"{present}/{total}",
        "attempt": job.attempt,
        **{name: at for name, at in moments.items() if at is not None},
        "conditions": _conditions(job),
        "history": [
            {"phase": entry.phase.value, "at": moment(entry.at), "reason": entry.reason, "message": entry.message}
            for entry in stored_history(job.history, _HISTORY_SHOWN)
        ],
        FIELD: record_to_text(job, journal),
    }


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
            "message": shortened(job.message),
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


def is_label_value(text: str) -> bool:
    """Whether Kubernetes takes a text as a label's value; as a selector's it refuses all others."""
    return _LABEL_VALUE.fullmatch(text) is not None


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels, or refuse what Kubernetes would."""
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not is_label_value(value):
            raise InvalidInputError(
                f"'{key}: {value}' is not a label that Kubernetes takes",
                field="metadata.labels",
                expected="letters, digits, '.', '_' and '-', at most 63 of them",
            )
    return dict(labels)
