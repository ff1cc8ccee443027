"""Drives sweeps: submits and cancels trials as ``sweeps.plan`` says, and takes a deleted sweep's trials down.

A turn is short whatever the size of a sweep: few trials begin or go in one, the other sweeps have theirs in between,
and what a user asks for interrupts it.

Nothing is decided here, and nothing but the store is trusted to remember: trials have ids that follow from their
sweep, so whatever a crash interrupts is found and done again without a second job. The trials themselves are jobs
like any other; the controller drives those.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from gangline.errors import ConflictError, NotFoundError, StaleVersionError, StorageError
from gangline.lifecycle import Event, new_job
from gangline.lifecycle.events import CancelRequested, DeleteRequested
from gangline.model import Clock, JobId, JobSpec, JournalRecord
from gangline.model.sweep import Assignment, Sweep, SweepId
from gangline.storage.interface import Store
from gangline.storage.trials import read_trials
from gangline.sweeps import Trial, plan, trial_to_job

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 60.0
_DELETED_AT_ONCE = 100
"""How many trials of a sweep are deleted in one turn: the controller has the news of other jobs to handle, too."""
_LONGEST_PAUSE_SECONDS = 2.0


class JobLink(Protocol):
    """How the driver reaches whoever drives the jobs."""

    def changed(self, job_id: JobId) -> None:
        """Say that there is a new job."""
        ...

    def hear(self, event: Event) -> None:
        """Let something happen to a job; it may be said twice and may be lost in a crash."""
        ...

    def watch(self) -> AsyncIterator[JobId]:
        """Return every job that changes from this call on."""
        ...


class SweepDriver:
    """Drives every sweep of one store. There is one per store at a time."""

    def __init__(self, *, store: Store, link: JobLink, clock: Clock) -> None:
        self._store = store
        self._link = link
        self._clock = clock
        self._unsettled: set[SweepId] = set()
        self._due: set[SweepId] | None = None
        """The sweeps to look at; None stands for all of them."""
        self._awake = asyncio.Event()
        self._asked = asyncio.Event()

    def changed(self) -> None:
        """Look at all sweeps again: somebody submitted, stopped or deleted one."""
        self._due = None
        self._awake.set()
        self._asked.set()

    async def run(self) -> None:
        """Drive everything until cancelled."""
        listener = asyncio.create_task(self._listen(self._link.watch()), name="trials")
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
                    self.changed()
                except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                    _log.exception("a step failed; nothing is lost, trying again")
                    await asyncio.sleep(_PAUSE_SECONDS)
                    self.changed()
                await self._rest(self._clock.now() - began)
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def _rest(self, worked_seconds: float) -> None:
        """Wait for news; after a while without any, look at everything again in case something failed before.

        Reading thousands of trials takes its time, and each of them is news: everything else gets as much time as
        that took, unless a user asks for something.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(worked_seconds, 0.0), _LONGEST_PAUSE_SECONDS)):
                await self._asked.wait()
        try:
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                await self._awake.wait()
        except TimeoutError:
            self.changed()

    async def settle(self) -> None:
        """Let every sweep that is due have one turn."""
        due, self._due = self._due, set()
        sweeps = [sweep for sweep in await self._store.sweeps() if not sweep.settled]
        self._unsettled = {sweep.id for sweep in sweeps}
        for sweep in sweeps:
            if due is None or sweep.id in due:
                try:
                    await self._drive(sweep)
                except (StaleVersionError, NotFoundError):
                    self._wake(sweep.id)  # somebody else changed it meanwhile: read it again
                except ConflictError as error:
                    _log.error("sweep %s: a trial cannot be started: %s", sweep.name, error)
                except StorageError:
                    raise
                except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on with the others
                    _log.exception("sweep %s cannot be carried on", sweep.name)

    async def _listen(self, changes: AsyncIterator[JobId]) -> None:
        async for job_id in changes:
            sweep_id = SweepId(job_id.rpartition("-")[0])
            if sweep_id in self._unsettled:
                self._wake(sweep_id)

    def _wake(self, sweep_id: SweepId) -> None:
        if self._due is not None:
            self._due.add(sweep_id)
        self._awake.set()

    async def _drive(self, sweep: Sweep) -> None:
        trials = await read_trials(self._store, sweep)
        if sweep.deleting:
            await self._delete(sweep, trials)
            return
        wanted = plan(sweep, trials)
        begun = await self._start_all(sweep, wanted.start)
        for job_id in wanted.cancel:
            self._link.hear(CancelRequested(job_id=job_id, at=self._clock.now()))
        if begun > sweep.begun:
            await self._store.save_sweep(replace(sweep, begun=begun))
            self._wake(sweep.id)
        elif wanted.over:
            await self._store.save_sweep(replace(sweep, finished_at=self._clock.now()))

    async def _delete(self, sweep: Sweep, trials: Iterable[Trial]) -> None:
        """Have the trials deleted; the sweep goes when that is on record for each, and not merely said."""
        left = [trial.job for trial in trials if not trial.job.deleting]
        for job in left[:_DELETED_AT_ONCE]:
            self._link.hear(DeleteRequested(job_id=job.id, at=self._clock.now()))
        if not left:
            await self._store.remove_sweep(sweep.tenant, sweep.name)

    async def _start_all(self, sweep: Sweep, assignments: Iterable[Assignment]) -> int:
        """Start trials until somebody asks for something, which may be that this very sweep stops.

        Returns the number behind the last one that was started; 0 for none.
        """
        begun = 0
        for assignment in assignments:
            if self._due is None:
                break
            await self._start(sweep, assignment)
            begun = max(begun, assignment.number + 1)
        return begun

    async def _start(self, sweep: Sweep, assignment: Assignment) -> None:
        job_id, spec = sweep.trial_id(assignment.number), trial_to_job(sweep.spec, assignment)
        try:
            await self._create(job_id, spec, sweep)
        except ConflictError:
            if await self._exists(job_id):
                return  # made before a crash that came before it was noted
            # Some other job bears the name; the id serves as well.
            await self._create(job_id, replace(spec, name=job_id), sweep)
        self._link.changed(job_id)

    async def _create(self, job_id: JobId, spec: JobSpec, sweep: Sweep) -> None:
        job = new_job(job_id, spec, self._clock.now())
        message = f"by the sweep {sweep.name}"
        record = JournalRecord(job_id=job_id, at=job.created_at, reason="Submitted", message=message, phase=job.phase)
        await self._store.create(job, [record])

    async def _exists(self, job_id: JobId) -> bool:
        try:
            await self._store.get(job_id)
        except NotFoundError:
            return False
        return True
