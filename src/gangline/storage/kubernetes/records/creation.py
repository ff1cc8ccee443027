"""What a new job object says of its creation, and how much of that is believed. Pure.

Whoever may create a job may write anything into it, and the first record travels in an annotation. So of that record
only three things count: whether the job is to rest at first, the notes that its submitter made, and within the second
that the API server wrote, the exact moment, by which jobs of one second keep their order. When a job was made, which id
it has and where it stands follow from the object; who made it is the annotation ``gangline.dev/author``, in which the
installed admission policy lets nobody write a name but his own.
"""

from collections.abc import Sequence
from typing import Any

from gangline.kinds import all_kinds
from gangline.kube import GenericObject
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, JobSpec, JournalRecord, Phase, Timestamp
from gangline.storage.kubernetes.records.record_text import (
    INITIAL,
    StoredRecord,
    appended,
    read_initial,
    record_to_text,
)

JOB_ID = "gangline.dev/job-id"
SUBMITTED_AS = "gangline.dev/submitted-as"
"""An annotation: namespace and name of the object that was made for the job whose id it bears. A copy of an object
(``kubectl get -o yaml``) has the id too, and is a job of its own."""
AUTHOR = "gangline.dev/author"
"""An annotation: who submitted the job, as the API server calls them."""
NOTE = "Note"
SUBMITTED = "Submitted"

_LATEST_SECONDS = 0.999
"""How far into its second a job may say that it was made."""


def creation_annotations(job: Job, records: Sequence[JournalRecord], *, namespace: str, name: str) -> dict[str, str]:
    """Write what a new object says of the job that it is made for."""
    return {INITIAL: record_to_text(job, appended((), records)), SUBMITTED_AS: f"{namespace}/{name}"}


def is_copy(item: GenericObject) -> bool:
    """Whether what the object says of its job was said of another one."""
    own = f"{item.metadata.namespace}/{item.metadata.name}"
    return item.metadata.annotations.get(SUBMITTED_AS, own) != own


def id_of(item: GenericObject) -> JobId:
    """The job's id: the one it was submitted with or, applied by hand, the object's."""
    labelled = None if is_copy(item) else item.metadata.labels.get(JOB_ID)
    return JobId(labelled or item.metadata.uid)


def created_at(item: GenericObject) -> Timestamp:
    """When the object was made: by the server's clock, and within its second by the submitter's."""
    said = _said(item)
    return dated(item, said.state.get("created_at") if said is not None else None)


def dated(item: GenericObject, claimed: Any) -> Timestamp:
    """The moment that is claimed, if it lies in the second in which the server made the object; else the nearest."""
    stamp = item.metadata.creation_timestamp
    if not isinstance(claimed, int | float):
        return Timestamp(stamp.timestamp() if stamp is not None else 0.0)
    if stamp is None:
        return Timestamp(claimed)
    made = stamp.timestamp()
    return Timestamp(min(max(claimed, made), made + _LATEST_SECONDS))


def created_job(item: GenericObject, spec: JobSpec, *, halted: bool = False) -> Job:
    """The job of an object that has no record yet: it begins its life when it was created."""
    said = _said(item)
    resting = halted or (said is not None and _last_phase(said) == Phase.HALTED)
    return new_job(id_of(item), spec, created_at(item), halted=resting)


def first_journal(item: GenericObject, job: Job) -> tuple[JournalRecord, ...]:
    """What is known of how a new job came about."""
    said = _said(item)
    stored = [record for record in (said.journal if said is not None else ()) if record.reason in (SUBMITTED, NOTE)]
    words = {SUBMITTED: _submitted_by(item)}
    return appended(
        (),
        [
            JournalRecord(
                job_id=job.id,
                at=job.created_at,
                reason=record.reason,
                message=words.get(record.reason, record.message),
                phase=job.phase,
            )
            for record in stored
        ],
    )


def _said(item: GenericObject) -> StoredRecord | None:
    return None if is_copy(item) else read_initial(item.metadata.annotations)


def _last_phase(said: StoredRecord) -> object:
    history = said.state.get("history")
    last = history[-1] if isinstance(history, list) and history else {}
    return last.get("phase") if isinstance(last, dict) else None


def _submitted_by(item: GenericObject) -> str:
    if author := item.metadata.annotations.get(AUTHOR):
        return f"by {author}"
    owning = (kind for kind in all_kinds() if kind.owns_jobs and item.metadata.labels.get(kind.label))
    kind = next(owning, None)
    return f"by the {kind.name} {item.metadata.labels[kind.label]}" if kind is not None else ""
