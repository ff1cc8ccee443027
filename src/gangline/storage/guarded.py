"""A store that lets one thing be changed only in the version that somebody named.

The operations try again when somebody else was quicker; whoever asked for one version must be refused instead.
"""

from collections.abc import Sequence
from typing import Any, Generic, cast

from gangline.errors import PreconditionFailedError
from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Job, JournalRecord
from gangline.model.record import Record
from gangline.storage.interface import Records, Store


def guarded(store: Store, target: str, version: int) -> Store:
    """Return a store whose job or record of an id is changed only if it is still of a version."""
    return cast(Store, _GuardedStore(store, _Guard(target, version)))


class _Guard:
    """The thing and its version; what is written for the request itself gives it the next one."""

    def __init__(self, target: str, version: int) -> None:
        self._target = target
        self._version = version

    def check(self, target: str, version: int) -> None:
        if target == self._target and version != self._version:
            raise changed_meanwhile(version)

    def move(self, target: str, version: int) -> None:
        if target == self._target:
            self._version = version


def changed_meanwhile(version: int) -> PreconditionFailedError:
    """Make the refusal of a version that is not the present one."""
    return PreconditionFailedError(f"it was changed meanwhile: it is version {version} now; read it again")


class _GuardedStore:
    def __init__(self, behind: Store, guard: _Guard) -> None:
        self._behind = behind
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def save(self, job: Job, records: Sequence[JournalRecord] = ()) -> Job:
        self._guard.check(job.id, job.version)
        saved = await self._behind.save(job, records)
        self._guard.move(saved.id, saved.version)
        return saved

    def records(self, kind: Kind[Spec, Status, View]) -> Records[Spec, Status]:
        return cast("Records[Spec, Status]", _GuardedRecords(self._behind.records(kind), self._guard))


class _GuardedRecords(Generic[Spec, Status]):
    def __init__(self, behind: Records[Spec, Status], guard: _Guard) -> None:
        self._behind = behind
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def save(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        self._guard.check(record.id, record.version)
        saved = await self._behind.save(record)
        self._guard.move(saved.id, saved.version)
        return saved

    async def remove(self, record: Record[Spec, Status]) -> None:
        self._guard.check(record.id, record.version)
        await self._behind.remove(record)
