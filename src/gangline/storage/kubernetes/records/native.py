"""Our own Job as the record of a job. Pure; ``custom_resources`` has the translation itself."""

from collections.abc import Iterator, Sequence

from gangline.kube import GenericObject
from gangline.lifecycle import Event
from gangline.model import Clock, Explanation, Job, JournalRecord, Phase, Tenant
from gangline.storage.kubernetes.definitions.native import JOBS
from gangline.storage.kubernetes.records import custom_resources
from gangline.storage.kubernetes.records.events import record_to_event, subject_of
from gangline.storage.kubernetes.records.explanations import explanation_to_plain
from gangline.storage.kubernetes.records.record_kind import Plain, RecordKind, StoredJob
from gangline.storage.kubernetes.records.record_text import FIELD


class NativeRecords:
    """Jobs of ``gangline.dev/v1``."""

    resource = JOBS
    finalizer: str | None = custom_resources.FINALIZER
    blocks_deletion = False

    def read(self, item: GenericObject, tenant: Tenant) -> StoredJob | None:
        """Read an object; see RecordKind."""
        return custom_resources.object_to_job(item, tenant, self)

    def body(self, job: Job, records: Sequence[JournalRecord], *, namespace: str, name: str) -> Plain:
        """Write a new object; see RecordKind."""
        return custom_resources.job_to_object(job, records, namespace=namespace, name=name)

    def keeps(self, job: Job) -> bool:
        """Keep whatever no other kind does; see RecordKind."""
        return True

    def status(self, job: Job, journal: Sequence[JournalRecord], told: Explanation | None = None) -> Plain:
        """Write the status; see RecordKind."""
        explanation = {} if told is None else {"explanation": explanation_to_plain(told)}
        return custom_resources.job_to_status(job, journal) | explanation

    def change(self, stored: StoredJob, job: Job) -> Plain:
        """Write a changed spec; see RecordKind."""
        if job.spec == stored.job.spec or stored.complaint is not None:
            return {}  # what its author made unreadable is his to mend
        old = dict.fromkeys(stored.job.spec.labels)
        return {"metadata": {"labels": {**old, **job.spec.labels}}, "spec": custom_resources.spec_to_plain(job.spec)}

    def explanation(self, change: Plain) -> Plain:
        """Put an explanation in its place; see RecordKind."""
        return {"explanation": change}

    def refusal(self, item: GenericObject, message: str, clock: Clock) -> Plain | None:
        """Say why an object is not a job; see RecordKind."""
        status = {"reason": "InvalidJob", "message": message}
        if FIELD not in item.status:
            status["phase"] = Phase.FAILED.value  # one that was a job waits until it is one again
        return None if {name: item.status.get(name) for name in status} == status else status

    def requested_changes(self, stored: StoredJob, clock: Clock) -> Sequence[Event]:
        """Nothing: a native spec has no words for requests; see RecordKind."""
        return ()

    def events(self, stored: StoredJob, record: JournalRecord) -> Iterator[Plain]:
        """Write one event per phase; see RecordKind."""
        if record.replica is None:
            message = record.message or f"the job is {record.phase}"
            yield record_to_event(subject_of(stored), record, record.reason, f"{record.phase}: {message}")


NATIVE = NativeRecords()
_conforms: type[RecordKind] = NativeRecords
