"""What every kind besides Job is kept as: what its user asked for, how far it has come, and the envelope of both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NewType, Protocol, TypeVar

from gangline.model.clock import Timestamp
from gangline.model.identity import JobId, Tenant

RecordId = NewType("RecordId", str)
"""A record's unique id, chosen by whoever submits it; the ids of jobs that belong to it begin with it."""

DELETING = "deleting"
"""The state of everything that is on its way out, whatever its kind."""


class RecordSpec(Protocol):
    """What a user's file says of a record."""

    @property
    def name(self) -> str:
        """Its name, unique among those of its kind and tenant."""
        ...

    @property
    def tenant(self) -> Tenant | None:
        """Whose it is; None for what belongs to the whole cluster."""
        ...


class RecordStatus(Protocol):
    """How far a record has come; what it is by default is where every record begins."""

    @property
    def state(self) -> str:
        """Where it is, in one word."""
        ...

    @property
    def settled(self) -> bool:
        """Whether nothing will ever be done for it again."""
        ...


@dataclass(frozen=True, slots=True)
class NoStatus:
    """The status of what merely is there."""

    @property
    def state(self) -> str:
        """There is nothing to wait for."""
        return "ready"

    @property
    def settled(self) -> bool:
        """Nothing is ever done for it."""
        return True


Spec = TypeVar("Spec", bound=RecordSpec)
Status = TypeVar("Status", bound=RecordStatus)
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)  # without slots: a frozen generic with them cannot be made as Record[A, B](...)
class Record(Generic[Spec, Status]):
    """One thing of some kind. ``deleting`` means that what belongs to it disappears first, and then it itself."""

    id: RecordId
    spec: Spec
    status: Status
    created_at: Timestamp
    deleting: bool = False
    version: int = field(default=0, compare=False)
    """The store's counter for guarded writes; not part of what the record is."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def tenant(self) -> Tenant | None:
        """Whose it is."""
        return self.spec.tenant

    @property
    def state(self) -> str:
        """Where it is, in one word."""
        return DELETING if self.deleting else self.status.state

    @property
    def settled(self) -> bool:
        """Whether nothing will ever be done for it again."""
        return self.status.settled and not self.deleting

    def job_id(self, part: str | int) -> JobId:
        """The id of a job that belongs to it: always the same, so that starting it again makes no second job.

        ``part`` has no '-', so that the owner's id can be told from the job's.
        """
        return JobId(f"{self.id}-{part}")


@dataclass(frozen=True, slots=True)
class Summary:
    """What lists of a kind are filtered, sorted and shown by, where the whole record is too much to read."""

    name: str
    created_at: Timestamp
    fields: Mapping[str, str | float | None]


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """Some of many, newest first; ``next`` is the cursor of the page behind it, None at the end."""

    items: tuple[Item, ...] = ()
    next: str | None = None
    unreadable: tuple[str, ...] = ()
    """The names of those left out because they cannot be read: damaged, or against the rules of this version."""


def owner_of(job_id: JobId) -> RecordId:
    """Return the id of the record that a job would belong to, if it belongs to one."""
    return RecordId(job_id.rpartition("-")[0])
