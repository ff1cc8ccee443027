"""Kubeflow's own objects as records of jobs: a TFJob is the job, and no second object mirrors it. Pure.

The spec stays its author's; it is translated every time it is read. The status is what upstream's operator writes, and
beside it stands ``status.gangline`` with the whole record, which no client of upstream's ever sends back. An object
that upstream's operator had begun to run is taken over where it stands: see ``adoption``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from gangline.dialects import read_plain
from gangline.dialects.kubeflow import GROUP, Kind, job_conditions, job_to_status, replica_name, time_text
from gangline.dialects.translation import Translation
from gangline.errors import InvalidInputError, UnreadableRecordError
from gangline.kube import GenericObject, Resource
from gangline.lifecycle import Event
from gangline.lifecycle.events import HaltRequested, ResumeRequested
from gangline.model import Clock, Explanation, Job, JobSpec, JournalRecord, Phase, RoleName, Tenant
from gangline.storage.kubernetes.records import custom_resources
from gangline.storage.kubernetes.records.creation import (
    AUTHOR,
    JOB_ID,
    SUBMITTED_AS,
    created_job,
    creation_annotations,
    first_journal,
)
from gangline.storage.kubernetes.records.events import record_to_event, subject_of
from gangline.storage.kubernetes.records.explanations import explanation_to_plain, plain_to_explanation
from gangline.storage.kubernetes.records.record_kind import Plain, RecordKind, StoredJob
from gangline.storage.kubernetes.records.record_text import FIELD, INITIAL, StoredRecord, read_record, record_to_text
from gangline.storage.kubernetes.records.started_spec import roles_in, with_roles_of
from gangline.storage.kubernetes.records.upstream_status import began_elsewhere, ended_elsewhere

STRICT = "gangline.dev/strict"
"""An annotation: ``true`` keeps upstream's behaviour for this job, ``false`` ours; else the installation decides."""
OWN = "gangline"
"""The field of the status that is ours."""

_CREATION = (INITIAL, SUBMITTED_AS, AUTHOR)
_RESTING = frozenset({Phase.HALTING, Phase.HALTED})
_SECOND_VERSION = "sshAuthMountPath"
"""The definition gives this field to every MPIJob that is written as ``v2beta1``, and to no other."""
_REASON_INVALID = "InvalidSpec"


class KubeflowRecords:
    """Objects of one kind of ``kubeflow.org/v1``. ``strict`` is what the installation says for jobs that do not."""

    finalizer: str | None = None
    blocks_deletion = True

    def __init__(self, kind: Kind, *, strict: bool = False) -> None:
        self._kind = kind
        self._strict = strict
        self.resource = Resource(group=GROUP, version="v1", plural=kind.plural, kind=kind.name, type=GenericObject)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KubeflowRecords) and (other._kind.name, other._strict) == (
            self._kind.name,
            self._strict,
        )

    def __hash__(self) -> int:
        return hash((self._kind.name, self._strict))

    def read(self, item: GenericObject, tenant: Tenant) -> StoredJob | None:
        """Read an object; see RecordKind."""
        metadata, own, complaint = item.metadata, _own(item), None
        try:
            record = read_record(own)
            try:
                translation = self._translate(item, tenant)
            except InvalidInputError as error:
                if record is None:
                    raise
                complaint, translation = str(error), self._last_resort(item, record.state, tenant)
            if translation.managed_by is not None:
                return None
            job = self._recalled(record, translation) if record is not None else self._created_job(item, translation)
        except (msgspec.MsgspecError, InvalidInputError) as error:
            raise UnreadableRecordError(f"{self._kind.name} '{metadata.namespace}/{metadata.name}': {error}") from error
        recorded = FIELD in own
        return StoredJob.of(
            item,
            kind=self,
            job=job,
            journal=record.journal if record is not None else first_journal(item, job),
            told=plain_to_explanation(own.get("explanation")),
            recorded=recorded,
            suspended=translation.suspended,
            complaint=complaint,
            inherited=not recorded and not job.finished and began_elsewhere(item.status),
        )

    def body(self, job: Job, records: Sequence[JournalRecord], *, namespace: str, name: str) -> Plain:
        """Write a new object: the manifest as its user wrote it; see RecordKind."""
        manifest = json.loads(job.spec.manifest_json or "{}")
        given = manifest.get("metadata") or {}
        created = creation_annotations(job, records, namespace=namespace, name=name)
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": {**custom_resources.checked_labels(job.spec.labels), JOB_ID: job.id},
            "annotations": {**(given.get("annotations") or {}), **created},
        }
        spec = {**(manifest.get("spec") or {})}
        if _is_resting(job):
            spec["runPolicy"] = {**(spec.get("runPolicy") or {}), "suspend": True}
        if manifest.get("apiVersion") == f"{GROUP}/v2beta1":
            spec.setdefault(_SECOND_VERSION, "/root/.ssh")
        return {"apiVersion": self.resource.api_version, "kind": self._kind.name, "metadata": metadata, "spec": spec}

    def keeps(self, job: Job) -> bool:
        """Keep a job that says no more than its manifest does; see RecordKind."""
        version, _, name = (job.spec.origin or "").rpartition(" ")
        if name != self._kind.name or version not in (f"{GROUP}/v1", f"{GROUP}/v2beta1"):
            return False
        document = json.loads(job.spec.manifest_json or "{}")
        metadata = {**(document.get("metadata") or {}), "namespace": job.spec.tenant, "name": job.name}
        (translation,) = read_plain({**document, "metadata": metadata}, strict=self._strict)
        told = replace(translation.spec, labels=job.spec.labels, manifest_json=job.spec.manifest_json)
        return told == job.spec

    def status(self, job: Job, journal: Sequence[JournalRecord], told: Explanation | None = None) -> Plain:
        """Write the status; see RecordKind."""
        own: Plain = {FIELD: record_to_text(job, journal)}
        if told is not None:
            own["explanation"] = explanation_to_plain(told)
        return {**job_to_status(job, self._kind.name), OWN: own}

    def change(self, stored: StoredJob, job: Job) -> Plain:
        """Write what requests change in the spec: suspension, replica counts, labels, the manifest; see RecordKind.

        Only what this save changes: a request that its author has just written there must not be undone.
        """
        spec: Plain = {}
        if job.spec.manifest_json != stored.job.spec.manifest_json:
            old, new = (json.loads(each.spec.manifest_json or "{}").get("spec") or {} for each in (stored.job, job))
            spec = {**dict.fromkeys(old), **new}
        rests = _is_resting(job)
        if rests != _is_resting(stored.job) and rests != stored.suspended and not job.finished:
            spec["runPolicy"] = {**(spec.get("runPolicy") or {}), "suspend": rests}
        if job.scale != stored.job.scale:
            scaled = {self._type_in(job.spec, role): {"replicas": count} for role, count in job.scale}
            spec[self._kind.replicas_field] = {**(spec.get(self._kind.replicas_field) or {}), **scaled}
        patch: Plain = {"spec": spec} if spec else {}
        if job.spec.labels != stored.job.spec.labels:
            patch["metadata"] = {"labels": {**dict.fromkeys(stored.job.spec.labels), **job.spec.labels}}
        return patch

    def explanation(self, change: Plain) -> Plain:
        """Put an explanation in its place; see RecordKind."""
        return {OWN: {"explanation": change}}

    def refusal(self, item: GenericObject, message: str, clock: Clock) -> Plain | None:
        """Say in upstream's words why an object is not a job; see RecordKind."""
        conditions = item.status.get("conditions") or []
        if OWN in item.status or any(condition.get("reason") == self._invalid for condition in conditions):
            return None
        at = time_text(clock.now())
        times = {"lastUpdateTime": at, "lastTransitionTime": at}
        failed = {"type": "Failed", "status": "True", "reason": self._invalid, "message": message, **times}
        return {"conditions": [*conditions, failed], "completionTime": at}

    @property
    def _invalid(self) -> str:
        return f"{self._kind.name}{_REASON_INVALID}"

    def requested_changes(self, stored: StoredJob, clock: Clock) -> Sequence[Event]:
        """Halt what ``suspend`` asks to rest, and wake what it no longer does; see RecordKind."""
        job = stored.job
        if job.finished or job.deleting or stored.suspended == _is_resting(job):
            return ()
        request = HaltRequested if stored.suspended else ResumeRequested
        return (request(job_id=job.id, at=clock.now()),)

    def events(self, stored: StoredJob, record: JournalRecord) -> Iterator[Plain]:
        """Write upstream's events: one per pod and service, one per condition; see RecordKind."""
        component = self._kind.controller
        if record.replica is not None:
            if record.reason != "ReplicaStarted":
                return
            pod = replica_name(self._kind, stored.job.name, record.replica)
            for what in ("Pod", *(("Service",) if self._kind.has_services else ())):
                message = f"Created {what.lower()}: {pod}"
                about = str(record.replica)
                yield record_to_event(
                    subject_of(stored), record, f"SuccessfulCreate{what}", message, component=component, about=about
                )
            return
        condition = job_conditions(stored.job, self._kind)[-1]
        if condition.at == record.at or record.phase is Phase.QUEUED:
            yield record_to_event(subject_of(stored), record, condition.reason, condition.message, component=component)
        else:
            message = f"{record.phase}: {record.message or record.reason}"
            yield record_to_event(subject_of(stored), record, record.reason, message, component=component)

    def _translate(self, item: GenericObject, tenant: Tenant) -> Translation:
        metadata: Plain = {"name": item.metadata.name, "namespace": tenant}
        labels = {key: value for key, value in item.metadata.labels.items() if key != JOB_ID}
        annotations = {key: value for key, value in item.metadata.annotations.items() if key not in _CREATION}
        if labels:
            metadata["labels"] = labels
        if annotations:
            metadata["annotations"] = annotations
        version = "v2beta1" if _SECOND_VERSION in item.spec else "v1"
        document = {"apiVersion": f"{GROUP}/{version}", "kind": self._kind.name, "metadata": metadata}
        strict = {"true": True, "false": False}.get(annotations.get(STRICT, ""), self._strict)
        (translation,) = read_plain({**document, "spec": item.spec}, strict=strict)
        return translation

    def _last_resort(self, item: GenericObject, state: Mapping[str, Any], tenant: Tenant) -> Translation:
        """Stand in for a spec that was made unreadable after its job had begun: enough to stop and to finish it."""
        origin = f"{GROUP}/v1 {self._kind.name}"
        spec = JobSpec(name=item.metadata.name, tenant=tenant, roles=roles_in(state), origin=origin, manifest_json="{}")
        suspended = (item.spec.get("runPolicy") or {}).get("suspend") is True
        return Translation(spec=spec, suspended=suspended)

    def _recalled(self, record: StoredRecord, translation: Translation) -> Job:
        """The kept state with the present spec, whose replica counts are what its author wants of a job that runs."""
        job = record.job(translation.spec)
        spec = with_roles_of(job, translation.spec)
        elastic = [role for role in spec.roles if role.elastic] if job.attempt else []
        return replace(job, spec=spec, scale=tuple(sorted((role.name, role.replicas) for role in elastic)))

    def _created_job(self, item: GenericObject, translation: Translation) -> Job:
        job = created_job(item, translation.spec, halted=translation.suspended)
        return ended_elsewhere(job, item.status) or job

    def _type_in(self, spec: JobSpec, role: RoleName) -> str:
        """The replica type as the author spelled it."""
        written = json.loads(spec.manifest_json or "{}").get("spec", {}).get(self._kind.replicas_field) or {}
        wanted = self._kind.type_of(role)
        return next((name for name in written if name.casefold() == wanted.casefold()), wanted)


def _own(item: GenericObject) -> Mapping[str, Any]:
    own = item.status.get(OWN)
    return own if isinstance(own, Mapping) else {}


def _is_resting(job: Job) -> bool:
    """Whether the job rests, or is about to, until its user wakes it."""
    return job.phase in _RESTING and not job.requeue


_conforms: type[RecordKind] = KubeflowRecords
