"""Our own Job as the record of a job. Pure; ``wire`` has the translation itself."""

from collections.abc import Iterator, Sequence

from gangline.kube import GenericObject
from gangline.lifecycle import Event
from gangline.model import Clock, Job, JournalRecord, Phase, Tenant
from gangline.storage.kubernetes import wire
from gangline.storage.kubernetes.announcements import record_to_event, subject_of
from gangline.storage.kubernetes.definitions import JOBS
from gangline.storage.kubernetes.explanations import ToldExplanation, explanation_to_plain
from gangline.storage.kubernetes.record_text import FIELD
from gangline.storage.kubernetes.records import Kept, Plain, RecordKind


class NativeRecords:
    """Jobs of ``gangline.dev/v1``."""

    resource = JOBS
    finalizer: str | None = wire.FINALIZER
    blocks_deletion = False

    def read(self, item: GenericObject, tenant: Tenant) -> Kept | None:
        """Read an object; see RecordKind."""
        return wire.object_to_job(item, tenant, self)

    def body(self, job: Job, records: Sequence[JournalRecord], *, namespace: str, name: str) -> Plain:
        """Write a new object; see RecordKind."""
        return wire.job_to_object(job, records, namespace=namespace, name=name)

    def keeps(self, job: Job) -> bool:
        """Keep whatever no other kind does; see RecordKind."""
        return True

    def status(self, job: Job, journal: Sequence[JournalRecord], told: ToldExplanation | None = None) -> Plain:
        """Write the status; see RecordKind."""
        explanation = {} if told is None else {"explanation": explanation_to_plain(told)}
        return wire.job_to_status(job, journal) | explanation

    def change(self, kept: Kept, job: Job) -> Plain:
        """Write a changed spec; see RecordKind."""
        if job.spec == kept.job.spec or kept.complaint is not None:
            return {}  # what its author made unreadable is his to mend
        old = dict.fromkeys(kept.job.spec.labels)
        return {"metadata": {"labels": {**old, **job.spec.labels}}, "spec": wire.spec_to_plain(job.spec)}

    def explanation(self, change: Plain) -> Plain:
        """Put an explanation in its place; see RecordKind."""
        return {"explanation": change}

    def refusal(self, item: GenericObject, message: str, clock: Clock) -> Plain | None:
        """Say why an object is no job; see RecordKind."""
        status = {"reason": "InvalidJob", "message": message}
        if FIELD not in item.status:
            status["phase"] = Phase.FAILED.value  # one that was a job waits until it is one again
        return None if {name: item.status.get(name) for name in status} == status else status

    def wishes(self, kept: Kept, clock: Clock) -> Sequence[Event]:
        """Nothing: a native spec has no words for requests; see RecordKind."""
        return ()

    def events(self, kept: Kept, record: JournalRecord) -> Iterator[Plain]:
        """Write one event per phase; see RecordKind."""
        if record.replica is None:
            message = record.message or f"the job is {record.phase}"
            yield record_to_event(subject_of(kept), record, record.reason, f"{record.phase}: {message}")


NATIVE = NativeRecords()
_conforms: type[RecordKind] = NativeRecords
