"""Drives the records of every kind that has a plan: creates and cancels jobs as it says, and takes deleted ones down.

A turn is short whatever the size of a record: few of its jobs begin or go in one, other records have theirs in between,
and what a user asks for interrupts it.

Nothing is decided here, and nothing but the store is trusted to remember: jobs have ids that follow from their record,
so whatever a crash interrupts is found and done again without a second job. The jobs themselves are like any other; the
controller drives those.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from gangline.controller.owned_jobs import OwnedJobs
from gangline.errors import ConflictError, NotFoundError, RecordTooLargeError, StaleVersionError, StorageError
from gangline.kinds import AnyKind, NewJob, NewRecord, Owned, Plan
from gangline.kinds.queue import QUEUE
from gangline.lifecycle import Event, new_job
from gangline.lifecycle.events import CancelRequested, DeleteRequested, HaltRequested, ResumeRequested
from gangline.model import Backoff, Clock, Job, JobId, JobSpec, JournalRecord, Tenant, Timestamp
from gangline.model.record import Record, RecordId, owner_of
from gangline.storage.interface import Store
from gangline.storage.owned import all_records, read_jobs, read_queue_load

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0
_BACKOFF = Backoff(first_seconds=_PAUSE_SECONDS, longest_seconds=30.0)
_LONGEST_WAIT_SECONDS = 60.0
_LEAVING_SECONDS = 0.2
_REPORTS_SECONDS = 0.3
"""How long reports are gathered before a record that follows them has a turn."""
_DELETED_AT_ONCE = 100
"""How many jobs of a record are deleted in one turn: the controller has the news of other jobs to handle, too."""
_LONGEST_PAUSE_SECONDS = 2.0
_OTHERS = 100
"""How many other records a plan can look at: the newest."""

AnyRecord = Record[Any, Any]
Publish = Callable[[AnyKind, AnyRecord, Owned], Awaitable[None]]
ConfigMapReader = Callable[[Tenant | None, str, str], Awaitable[Mapping[str, str] | None]]
"""Returns what the ConfigMap of a namespace and name holds; None if it is not there."""


class JobLink(Protocol):
    """How the driver reaches whoever drives the jobs."""

    def changed(self, job_id: JobId) -> None:
        """Say that there is a new job."""
        ...

    def queues_changed(self) -> None:
        """Say that a queue was made, changed or deleted."""
        ...

    def hear(self, event: Event) -> None:
        """Let something happen to a job; it may be said twice and may be lost in a crash."""
        ...

    def watch(self) -> AsyncIterator[JobId]:
        """Return every job that changes from this call on."""
        ...

    def reports(self) -> AsyncIterator[JobId]:
        """Return every job that reports numbers from this call on."""
        ...


class Observer(Protocol):
    """Sees what no record says of the jobs of a kind, and shows others what its plan has decided."""

    async def look(self, record: AnyRecord, owned: Owned) -> object:
        """Return what the plan finds in ``Owned.sight``."""
        ...

    async def show(self, record: AnyRecord, owned: Owned) -> None:
        """Show a record with its new status, before it is kept; also called if nothing changed."""
        ...

    async def forget(self, record: AnyRecord) -> bool:
        """Show a record no longer: it is being deleted. Asked again until it returns that its jobs may end."""
        ...


class RecordDriver:
    """Drives every record of one store. There is one per store at a time."""

    def __init__(
        self,
        kinds: Iterable[AnyKind],
        *,
        store: Store,
        link: JobLink,
        clock: Clock,
        config_map: ConfigMapReader | None = None,
        adapt: Callable[[AnyRecord, JobSpec], Awaitable[JobSpec]] | None = None,
        publish: Publish | None = None,
        observers: Mapping[str, Observer] | None = None,
        clean: Callable[[AnyKind, AnyRecord], Awaitable[None]] | None = None,
    ) -> None:
        """Make a driver. ``config_map`` reads what a ConfigMap holds; ``adapt`` fits a record's new job to the engine;
        ``publish`` shows a record to clients that look at something else than at records; ``observers`` are by kind;
        ``clean`` removes the Secrets and claims of a record whose jobs are gone."""
        self._kinds = tuple(kind for kind in kinds if kind.plan is not None)
        self._store = store
        self._link = link
        self._clock = clock
        self._owned = OwnedJobs(store)
        self._config_map = config_map
        self._adapt = adapt
        self._publish = publish
        self._clean = clean
        self.observers = dict(observers or {})
        self._unsettled: dict[RecordId, AnyKind] = {}
        self._due: set[RecordId] | None = None
        """The records to look at; None stands for all of them."""
        self._again: dict[RecordId, Timestamp] = {}
        """When a plan asked to be made again, whether or not anything happens until then."""
        self._following: set[RecordId] = set()
        """The records whose plans asked to see what their running jobs report."""
        self._called = dict[RecordId, asyncio.TimerHandle]()
        """Those that are about to have a turn because of a report."""
        self._refusals: dict[RecordId, int] = {}
        """How often in a row the store refused a record: it waits alone, and the others have their turns."""
        self._awake = asyncio.Event()
        self._asked = asyncio.Event()

    def changed(self, kind: str) -> None:
        """Look at all records again: somebody made, changed or deleted one of this kind."""
        if kind == QUEUE.name:
            self._link.queues_changed()
        self._let_all_have_a_turn()

    def wake(self, record_id: RecordId) -> None:
        """Let one record have a turn."""
        self._wake(record_id)

    def look_at_all(self) -> None:
        """Let every record have a turn, and read its jobs again whether or not they are known to have changed."""
        self._owned.forget()
        self._let_all_have_a_turn()

    def _let_all_have_a_turn(self) -> None:
        self._due = None
        self._awake.set()
        self._asked.set()

    async def run(self) -> None:
        """Drive everything until cancelled."""
        listeners = (
            asyncio.create_task(self._listen(self._link.watch()), name="jobs of records"),
            asyncio.create_task(self._follow(self._link.reports()), name="reports to records"),
        )
        try:
            while True:
                self._awake.clear()
                self._asked.clear()
                began = self._clock.now()
                try:
                    await self.settle()
                except StorageError as error:
                    _log.error("the store refuses; nothing is lost, trying again: %s", error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                    self.look_at_all()
                except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                    _log.exception("a step failed; nothing is lost, trying again")
                    await asyncio.sleep(_PAUSE_SECONDS)
                    self.look_at_all()
                await self._rest(self._clock.now() - began)
        finally:
            for call in self._called.values():
                call.cancel()
            for listener in listeners:
                listener.cancel()
            await asyncio.gather(*listeners, return_exceptions=True)

    async def _rest(self, worked_seconds: float) -> None:
        """Wait for news; after a while without any, look at everything again in case something failed before.

        Reading thousands of jobs takes its time, and each of them is news: everything else gets as much time as
        that took, unless a user asks for something.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(worked_seconds, 0.0), _LONGEST_PAUSE_SECONDS)):
                await self._asked.wait()
        now = self._clock.now()
        first = min((at - now for at in self._again.values()), default=_LONGEST_WAIT_SECONDS)
        try:
            async with asyncio.timeout(min(max(first, 0.0), _LONGEST_WAIT_SECONDS)):
                await self._awake.wait()
        except TimeoutError:
            if first < _LONGEST_WAIT_SECONDS:
                self._wake_those_who_asked()
            else:
                self.look_at_all()

    def _wake_those_who_asked(self) -> None:
        now = self._clock.now()
        for record_id in [each for each, at in self._again.items() if at <= now]:
            del self._again[record_id]
            self._wake(record_id)

    async def settle(self) -> None:
        """Let every record that is due have one turn."""
        due, self._due = self._due, set()
        found = [(kind, record) for kind in self._kinds for record in await self._store.records(kind).unsettled()]
        unsettled = [(kind, record) for kind, record in found if not record.settled]
        self._unsettled = {record.id: kind for kind, record in unsettled}
        self._again = {each: at for each, at in self._again.items() if each in self._unsettled}
        self._following &= self._unsettled.keys()
        self._refusals = {each: times for each, times in self._refusals.items() if each in self._unsettled}
        self._owned.keep_only(self._unsettled.keys())
        for kind, record in unsettled:
            if (due is None or record.id in due) and not self._is_refused(record.id):
                await self._have_a_turn(kind, record)

    def _is_refused(self, record_id: RecordId) -> bool:
        """Whether it is too early to try a record again that the store refused."""
        return record_id in self._refusals and self._again.get(record_id, 0.0) > self._clock.now()

    async def _have_a_turn(self, kind: AnyKind, record: AnyRecord) -> None:
        try:
            await self._drive(kind, record)
            self._refusals.pop(record.id, None)
        except (StaleVersionError, NotFoundError):
            self._wake(record.id)  # somebody else changed it meanwhile: read it again
        except ConflictError as error:
            _log.error("%s %s: a job cannot be started: %s", kind.name, record.name, error)
        except StorageError as error:
            # A store that is away refuses to list as well, and that ends the turn of all. This is about one record.
            refusals = self._refusals[record.id] = self._refusals.get(record.id, 0) + 1
            self._again[record.id] = Timestamp(self._clock.now() + _BACKOFF.pause(refusals))
            self._owned.forget()
            _log.error("the store refuses; nothing is lost, trying again: %s", error)
        except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on with the others
            _log.exception("%s %s cannot be carried on", kind.name, record.name)

    async def _listen(self, changes: AsyncIterator[JobId]) -> None:
        async for job_id in changes:
            self._owned.changed(job_id)
            record_id = owner_of(job_id)
            if record_id in self._unsettled:
                self._wake(record_id)

    async def _follow(self, reports: AsyncIterator[JobId]) -> None:
        """Let records have a turn soon after their jobs reported what they follow."""
        loop = asyncio.get_running_loop()
        async for job_id in reports:
            record_id = owner_of(job_id)
            if record_id in self._following and record_id not in self._called:
                self._called[record_id] = loop.call_later(_REPORTS_SECONDS, self._called_up, record_id)

    def _called_up(self, record_id: RecordId) -> None:
        self._called.pop(record_id, None)
        self._wake(record_id)

    def _wake(self, record_id: RecordId) -> None:
        if self._due is not None:
            self._due.add(record_id)
        self._awake.set()

    async def _drive(self, kind: AnyKind, record: AnyRecord) -> None:
        observer = self.observers.get(kind.name)
        if record.deleting:
            if observer is not None and not await observer.forget(record):
                self._again[record.id] = Timestamp(self._clock.now() + _LEAVING_SECONDS)
                return
            await self._delete(kind, record, await read_jobs(self._store, kind, record))
            return
        if kind.plan is None:
            return
        owned = await self._read(kind, record)
        if observer is not None:
            owned = replace(owned, sight=await observer.look(record, owned))
        slowly, now = kind.plans_slowly(record.spec), self._clock.now()
        wanted = await asyncio.to_thread(kind.plan, record, owned, now) if slowly else kind.plan(record, owned, now)
        self._request(wanted)
        if not await self._create_all(kind, record, wanted.create):
            self._wake(record.id)  # interrupted: what was created is seen in the next turn
            return
        for new in wanted.make:
            await self._make(kind, new)
        self._note_when(kind, record, wanted.again_at)
        if self._publish is not None and kind.published is not None:
            # Before the record says so: who reads there that it has ended expects to find its parts.
            await self._publish(kind, replace(record, status=wanted.status), owned)
        if observer is not None:
            await observer.show(replace(record, status=wanted.status), owned)
        if wanted.status != record.status:
            await self._save(kind, record, wanted, owned)
            self._wake(record.id)
            if wanted.status.settled:
                self._wake_makers_of(kind)

    def _note_when(self, kind: AnyKind, record: AnyRecord, again_at: Timestamp | None) -> None:
        """Remember when a plan is to be made again: at a time, or earlier if what it follows is reported."""
        self._following.discard(record.id)
        if again_at is not None:
            self._again[record.id] = again_at
            if kind.follows(record.spec):
                self._following.add(record.id)

    async def _save(self, kind: AnyKind, record: AnyRecord, wanted: Plan[Any], owned: Owned) -> None:
        """Keep the new status. If it is too large to be kept, end the record and what runs for it."""
        records = self._store.records(kind)
        try:
            await records.save(replace(record, status=wanted.status))
        except RecordTooLargeError:
            if kind.given_up is None:
                raise
            status = kind.given_up(record.status, self._clock.now())
            unfinished = [job.id for job in owned.jobs if not job.finished]
            self._request(Plan(status=status, cancel=(*unfinished, *(job.id for job in wanted.create))))
            await records.save(replace(record, status=status))

    async def _read(self, kind: AnyKind, record: AnyRecord) -> Owned:
        """Read all that the plan looks at."""
        owned = await self._owned.read(kind, record, self._clock.now())
        if kind.reads_others(record.spec):
            found = await self._store.records(kind).list(record.tenant, limit=_OTHERS)
            others = tuple(each for each in found.items if each.id != record.id and not each.deleting)
            owned = replace(owned, others=others)
        queue = kind.shares(record.spec)
        if queue is not None:
            owned = replace(owned, queue=await read_queue_load(self._store, queue, record.id))
        related = [each for other in kind.related(record.spec) for each in await self._related(other, record)]
        owned = replace(owned, related=tuple(related))
        if self._config_map is not None and (wanted_maps := kind.config_maps(record.spec)):
            read = {place: await self._config_map(record.tenant, *place) for place in wanted_maps}
            owned = replace(owned, config_maps={place: data for place, data in read.items() if data is not None})
        return replace(owned, made=await self._made(kind, record))

    async def _related(self, kind: AnyKind, record: AnyRecord) -> tuple[AnyRecord, ...]:
        found = await all_records(self._store, kind, record.tenant if kind.namespaced else None)
        return tuple(each for each in found if not each.deleting)

    async def _made(self, kind: AnyKind, record: AnyRecord) -> tuple[AnyRecord, ...]:
        """Return the records that this one made and that its plan looks at."""
        found = []
        for name, record_id in kind.looks_for(record):
            records = self._store.records(_made_kind(kind))
            for each in (name, record_id):  # the id is the name of one whose own was taken
                made = await records.find(record.tenant, each)
                if made is not None and made.id == record_id:
                    found.append(made)
                    break
        return tuple(found)

    async def _make(self, kind: AnyKind, new: NewRecord) -> None:
        """Make a record, unless it was made before a crash that came before it was noted."""
        records = self._store.records(_made_kind(kind))
        record: AnyRecord = Record(
            id=new.id, spec=new.spec, status=_made_kind(kind).status(), created_at=self._clock.now()
        )
        try:
            await records.create(record)
        except ConflictError:
            present = await records.find(record.tenant, record.name)
            if present is None or present.id == new.id:
                return
            with suppress(ConflictError):  # some other record has the name; the id serves as well
                await records.create(replace(record, spec=replace(new.spec, name=str(new.id))))
        self._let_all_have_a_turn()

    def _wake_makers_of(self, kind: AnyKind) -> None:
        """Let those have a turn that may wait for the end of a record that they made."""
        for record_id, maker in self._unsettled.items():
            if maker.makes is not None and maker.makes() is kind:
                self._wake(record_id)

    def _request(self, wanted: Plan[Any]) -> None:
        """Say what should become of jobs that exist."""
        now = self._clock.now()
        for event, job_ids in (
            (CancelRequested, wanted.cancel),
            (HaltRequested, wanted.halt),
            (ResumeRequested, wanted.resume),
        ):
            for job_id in job_ids:
                self._link.hear(event(job_id=job_id, at=now))

    async def _delete(self, kind: AnyKind, record: AnyRecord, jobs: Collection[Job]) -> None:
        """Have the jobs deleted; the record goes when that is on record for each, and not merely said.

        One that has files of its own goes when its jobs are gone: until then they may use them.
        """
        left = [job for job in jobs if not job.deleting]
        for job in left[:_DELETED_AT_ONCE]:
            self._link.hear(DeleteRequested(job_id=job.id, at=self._clock.now()))
        if self._clean is not None and (kind.claims(record.spec) or kind.secrets(record.spec)):
            if jobs:
                self._again[record.id] = Timestamp(self._clock.now() + _LEAVING_SECONDS)
                return
            await self._clean(kind, record)
        if not left:
            await self._store.records(kind).remove(record)

    async def _create_all(self, kind: AnyKind, record: AnyRecord, jobs: Iterable[NewJob]) -> bool:
        """Create jobs until somebody asks for something, which may be that this very record stops."""
        for job in jobs:
            if self._due is None:
                return False
            await self._create(kind, record, job)
        return True

    async def _create(self, kind: AnyKind, record: AnyRecord, job: NewJob) -> None:
        self._owned.changed(job.id)
        try:
            await self._keep(kind, record, job)
        except ConflictError:
            if await self._exists(job.id):
                return  # made before a crash that came before it was noted
            # Some other job has the name; the id serves as well.
            await self._keep(kind, record, NewJob(job.id, replace(job.spec, name=job.id)))
        self._link.changed(job.id)

    async def _keep(self, kind: AnyKind, record: AnyRecord, wanted: NewJob) -> None:
        # Whatever the plan says of it: what does not bear the label would neither be seen again nor be deleted.
        labels = {**wanted.spec.labels, kind.label: record.name}
        spec = replace(wanted.spec, tenant=record.tenant or wanted.spec.tenant, labels=labels)
        if self._adapt is not None:
            spec = await self._adapt(record, spec)
        job = new_job(wanted.id, spec, self._clock.now())
        message = f"by the {kind.name} {record.name}"
        entry = JournalRecord(job_id=job.id, at=job.created_at, reason="Submitted", message=message, phase=job.phase)
        await self._store.create(job, [entry])

    async def _exists(self, job_id: JobId) -> bool:
        try:
            await self._store.get(job_id)
        except NotFoundError:
            return False
        return True


def _made_kind(kind: AnyKind) -> AnyKind:
    assert kind.makes is not None
    return kind.makes()
