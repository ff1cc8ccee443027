"""What it takes for a kind of object to be the record of a job, and one such object as it was read.

``NativeRecords`` (our own Job) and ``KubeflowRecords`` (TFJob and its kin) are the two implementations; the store, its
watch and its announcer deal with both through this interface and never ask which one they have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gangline.kube import GenericObject, Owner, OwnerReference, Resource
from gangline.lifecycle import Event
from gangline.model import Clock, Explanation, Job, JournalRecord, Tenant

Plain = dict[str, Any]
"""An object, or a part of one, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """One job object: the job, its journal, and what the object itself is called."""

    kind: "RecordKind"
    job: Job
    journal: tuple[JournalRecord, ...]
    namespace: str
    name: str
    uid: str
    made_at: float = 0.0
    """When the server made the object, by its own clock."""
    finalizers: tuple[str, ...] = ()
    being_deleted: bool = False
    """Somebody deleted the object; the job does not know it yet unless it says so itself."""
    told: Explanation | None = None
    """Why it waits, if the leader has said so."""
    recorded: bool = True
    """Whether the object holds a record; one that was applied by hand holds none until its job first changes."""
    suspended: bool = False
    """Whether the object's spec asks the job to rest; only foreign kinds have a field for it."""
    complaint: str | None = None
    """What is wrong with the spec of a job that has begun: it goes on as it was, and its author is told."""
    inherited: bool = False
    """Another operator had begun to run it when it was first seen here: its pods may be there."""

    @classmethod
    def of(
        cls,
        item: GenericObject,
        *,
        kind: "RecordKind",
        job: Job,
        journal: tuple[JournalRecord, ...],
        told: Explanation | None,
        recorded: bool,
        suspended: bool = False,
        complaint: str | None = None,
        inherited: bool = False,
    ) -> "StoredJob":
        """Make one of what was read from an object; the job is of the object's version."""
        metadata = item.metadata
        return cls(
            kind=kind,
            job=replace(job, version=int(metadata.resource_version)),
            journal=journal,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            made_at=metadata.creation_timestamp.timestamp() if metadata.creation_timestamp is not None else 0.0,
            finalizers=tuple(metadata.finalizers),
            being_deleted=metadata.deletion_timestamp is not None,
            told=told,
            recorded=recorded,
            suspended=suspended,
            complaint=complaint,
            inherited=inherited,
        )

    def with_status(self, job: Job, journal: Sequence[JournalRecord]) -> Plain:
        """Write the object with the status that this job gives it, to replace the one that was read and no newer one.

        Replacing costs the server less than patching, and of an object's status nobody else has a part.
        """
        resource = self.kind.resource
        guard = {"name": self.name, "namespace": self.namespace, "resourceVersion": str(self.job.version)}
        status = self.kind.status(job, journal, self.told if job.placeable else None)
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": guard, "status": status}

    @property
    def place(self) -> tuple[str, str, str]:
        """Where the object is: what stands there later is the same job's, made anew."""
        return self.kind.resource.plural, self.namespace, self.name

    @property
    def owner(self) -> Owner:
        """What everything of the job belongs to."""
        resource = self.kind.resource
        reference = OwnerReference(
            api_version=resource.api_version,
            kind=resource.kind,
            name=self.name,
            uid=self.uid,
            controller=True,
            block_owner_deletion=self.kind.blocks_deletion,
        )
        return Owner(self.namespace, reference)


class RecordKind(Protocol):
    """Reads and writes one kind of job object. Pure."""

    @property
    def resource(self) -> Resource[GenericObject]:
        """Where such objects live."""
        ...

    @property
    def finalizer(self) -> str | None:
        """What holds a deleted object until its gang is gone; None: it goes at once, and the store remembers it."""
        ...

    @property
    def blocks_deletion(self) -> bool:
        """Whether owned objects go first when the object is deleted in the foreground."""
        ...

    def read(self, item: GenericObject, tenant: Tenant) -> StoredJob | None:
        """Read an object, whoever made it; None if it belongs to another controller. Raises StorageError."""
        ...

    def body(self, job: Job, records: Sequence[JournalRecord], *, namespace: str, name: str) -> Plain:
        """Write a new object."""
        ...

    def keeps(self, job: Job) -> bool:
        """Whether a new job is kept as an object of this kind."""
        ...

    def status(self, job: Job, journal: Sequence[JournalRecord], told: Explanation | None = None) -> Plain:
        """Write the whole status: what people read, and the record. ``told`` is why the job waits."""
        ...

    def change(self, stored: StoredJob, job: Job) -> Plain:
        """Write, as a merge patch, what a saved job changes outside the status; empty: nothing."""
        ...

    def explanation(self, change: Plain) -> Plain:
        """Put the change of an explanation where the status has it."""
        ...

    def refusal(self, item: GenericObject, message: str, clock: Clock) -> Plain | None:
        """Write the status that tells an author why the object is not a job; None if it is told already."""
        ...

    def requested_changes(self, stored: StoredJob, clock: Clock) -> Sequence[Event]:
        """Return what the object's spec asks of the job and the job does not do yet."""
        ...

    def events(self, stored: StoredJob, record: JournalRecord) -> Iterator[Plain]:
        """Write what is announced of a record."""
        ...
