"""The controller: one loop that feeds events to the lifecycle, saves what comes of it and carries it out.

Nothing is decided here. A job changes only through ``lifecycle.advance``; gangs are placed only by
``scheduling.decide``; whatever must be done is an instruction of ``lifecycle.standing``. The record is saved
before anything is carried out, and instructions can be given again, so a crash at any point loses nothing.

Real services call ``run``; a simulator calls ``recover`` and ``settle`` itself and moves its own clock.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import NewType

from gangline.controller.deciding import Decider
from gangline.controller.feed import ChangeFeed
from gangline.controller.pending.drafts import Drafts
from gangline.controller.pending.instruction_queues import InstructionQueues
from gangline.controller.pending.postponed import Postponed
from gangline.controller.pending.timer_queue import TimerQueue, due_events
from gangline.controller.speeds import EarlierRuns, SpeedMeter, is_measured
from gangline.controller.usage_account import UsageAccount
from gangline.controller.watching import RunWatch, look_seconds
from gangline.engines.interface import (
    Confining,
    Engine,
    EngineEvent,
    NodesChanged,
    PlacementRecorder,
    Releasing,
    Watchful,
)
from gangline.errors import (
    InvalidTransitionError,
    NotFoundError,
    StaleVersionError,
    StorageError,
    UnreadableRecordError,
)
from gangline.lifecycle import Event, FinishGang, ForgetJob, Instruction, RunGang, StopGang, advance, standing
from gangline.lifecycle.events import CheckpointSaved, GangEvicted, GangGrown, GangPlaced, GangShrunk, LossDiverged
from gangline.lifecycle.watching import diverged
from gangline.model import CHECKPOINT_METRIC, Clock, Job, JobId, Metric, Node, Phase, Queue, Timestamp
from gangline.scheduling import DEFAULT_POLICIES, Decision, Explanation, Line, Policies
from gangline.storage.interface import JobQuery, Store
from gangline.storage.journal import records_between
from gangline.storage.owned import read_queues

_log = logging.getLogger(__name__)
_STORE_PAUSE_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 60.0
_WRITES_AT_ONCE = 32
"""Different jobs are saved side by side: a store across a network takes its time for each."""

_RUNS_READ = 200
"""Jobs that have ended whose speed is looked at when the controller starts."""

_DECISIONS = (GangEvicted, GangGrown, GangPlaced, GangShrunk)

Changed = NewType("Changed", str)
"""A job id in the inbox: its record was changed by somebody else."""


class Controller:
    """Drives every job of one store on one engine. There is one per store at a time."""

    def __init__(self, *, store: Store, engine: Engine, clock: Clock, policies: Policies = DEFAULT_POLICIES) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._policies = policies
        self._jobs: dict[JobId, Job] = {}
        self._candidates: dict[JobId, Job] = {}
        """Jobs that wait for machines or hold some: all that the scheduler needs to see."""
        self._undecided: set[JobId] = set()
        """Those of them that a decision could change by itself: they wait, or may grow and shrink."""
        self._inbox: deque[Event | Changed] = deque()
        self._postponed: Postponed[Event | Changed] = Postponed()
        self._metrics: list[Metric] = []
        self._awake = asyncio.Event()
        self._timers = TimerQueue()
        self._drafts = Drafts(engine)
        self._feed = ChangeFeed()
        self._reports = ChangeFeed()
        self.lanes = InstructionQueues(self._carry_out)
        self._nodes: Sequence[Node] | None = None
        self._queues: Sequence[Queue] | None = None
        self._unscheduled = True
        self._decider = Decider(policies)
        self._account = None if policies.usage_half_life_seconds is None else UsageAccount(store)
        self._explanations: dict[JobId, Explanation] = {}
        self._line: Line | None = None
        self._meter = SpeedMeter()
        self._earlier = EarlierRuns()
        self._watch = RunWatch(engine) if isinstance(engine, Watchful) else None

    # What operations ask for (their ControllerLink) ------------------------------------------------------

    def changed(self, job_id: JobId) -> None:
        """Look at this record again: somebody else changed it."""
        self._inbox.append(Changed(job_id))
        self._awake.set()

    def queues_changed(self) -> None:
        """Read the queues again."""
        self._queues = None
        self._unscheduled = True
        self._awake.set()

    def explanation(self, job_id: JobId) -> Explanation | None:
        """Return why this job waits and where it stands in line, as the last cycle found it."""
        why = self._explanations.get(job_id)
        return why if why is None or self._line is None else replace(why, line=self._line.place_of(job_id))

    def will_save(self, job_id: JobId) -> bool:
        """Whether this record is about to be written, so that nobody else need touch it."""
        return job_id in self._drafts

    def watch(self) -> AsyncIterator[JobId]:
        """Return every job that changes from this call on."""
        return self._feed.watch()

    def reports(self) -> AsyncIterator[JobId]:
        """Return every job that reports numbers from this call on, once they can be read."""
        return self._reports.watch()

    # The loop ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Drive everything until cancelled."""
        await self.recover()
        listener = asyncio.create_task(self._listen(), name="engine events")
        watcher = asyncio.create_task(self._watch_over_runs(), name="watching over runs")
        try:
            while True:
                try:
                    await self.settle()
                except StorageError as error:
                    _log.error("the store refuses; nothing is lost, trying again: %s", error)
                    await asyncio.sleep(_STORE_PAUSE_SECONDS)
                    continue
                except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                    _log.exception("a step failed; nothing is lost, trying again")
                    await asyncio.sleep(_STORE_PAUSE_SECONDS)
                    continue
                await self._rest()
        finally:
            listener.cancel()
            watcher.cancel()
            await asyncio.gather(listener, watcher, return_exceptions=True)
            await self.lanes.close()

    async def recover(self) -> None:
        """Pick up every thread: read what is unfinished and give its standing orders again."""
        async for job in self._store.unfinished():
            self._keep(job)
            self.lanes.submit(job.id, standing(job))
        if isinstance(self._engine, PlacementRecorder):
            attempts = {job.id: job.attempt for job in self._jobs.values()}
            self._inbox.extend(await self._engine.gangs_found(attempts))
        if self._account is not None:
            self._decider.recall(await self._account.read())
        ended = await self._store.list(JobQuery(phases=frozenset({Phase.COMPLETED}), limit=_RUNS_READ))
        for job in filter(is_measured, reversed(ended.jobs)):
            self._earlier.note(job)
        self._unscheduled = True

    async def settle(self) -> None:
        """Handle everything that is known now, until nothing more follows from it."""
        while True:
            self._run_due_timers()
            if self._metrics:
                await self._keep_metrics()
            elif self._inbox or self._postponed.due(self._clock.now()):
                await self._handle_inbox()
            elif self._unscheduled:
                await self._schedule()
            else:
                return
            await asyncio.sleep(0)  # however busy, the service answers in between

    async def _keep_metrics(self) -> None:
        """Keep numbers before the news that came after them: whoever sees a job end can read its last ones.

        What the store refuses is given up: numbers must not hold up the lives of jobs.
        """
        metrics, self._metrics = self._metrics, []
        try:
            await self._store.add_metrics(metrics)
        except StorageError as error:
            _log.warning("%d metrics could not be kept: %s", len(metrics), error)
        for job_id in {metric.job_id for metric in metrics}:
            self._reports.publish(job_id)

    @property
    def next_moment(self) -> Timestamp | None:
        """When time alone will give the controller something to do."""
        return self._timers.next

    def hear(self, event: EngineEvent | Event) -> None:
        """Take news in; it is handled by the next ``settle``."""
        if isinstance(event, Metric):
            self._metrics.append(event)
            if self._watch is not None and event.job_id in self._jobs:
                self._watch.hear(self._jobs[event.job_id], event, self._clock.now())
            if event.job_id in self._jobs and (message := diverged(job := self._jobs[event.job_id], event)) is not None:
                now, attempt = self._clock.now(), job.attempt
                self._inbox.append(LossDiverged(job_id=job.id, at=now, attempt=attempt, message=message))
            if event.name == CHECKPOINT_METRIC and event.job_id in self._jobs:
                # A machine whose clock is ahead must not make work safe that has not been done yet.
                at = Timestamp(min(event.at, self._clock.now()))
                self._inbox.append(CheckpointSaved(job_id=event.job_id, at=at))
            elif event.job_id in self._jobs and is_measured(self._jobs[event.job_id]):
                measured = self._meter.hear(self._jobs[event.job_id], event)
                if measured is not None:
                    self._inbox.append(measured)
        elif isinstance(event, NodesChanged):
            self._nodes = None
            self._unscheduled = True
        else:
            self._inbox.append(event)
        self._awake.set()

    async def _rest(self) -> None:
        moment = min((at for at in (self._timers.next, self._drafts.next) if at is not None), default=None)
        pause = _LONGEST_WAIT_SECONDS if moment is None else moment - self._clock.now()
        with contextlib.suppress(TimeoutError):
            # Not wait_for: on Python 3.11 it may swallow a cancellation that arrives together with the wake-up.
            async with asyncio.timeout(min(max(pause, 0.0), _LONGEST_WAIT_SECONDS)):
                await self._awake.wait()
        self._awake.clear()

    async def _listen(self) -> None:
        while True:
            try:
                async for event in self._engine.events():
                    self.hear(event)
            except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                _log.exception("the engine's events broke off; listening again")
            await asyncio.sleep(_STORE_PAUSE_SECONDS)

    async def _watch_over_runs(self) -> None:
        """Look again and again whether jobs that are to be watched get on with their work."""
        while self._watch is not None:
            await asyncio.sleep(look_seconds(self._candidates.values()))
            try:
                for event in await self._watch.look(list(self._candidates.values()), self._clock.now()):
                    self.hear(event)
            except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                _log.exception("running jobs could not be watched; trying again")

    def _run_due_timers(self) -> None:
        now = self._clock.now()
        self._inbox.extend(self._drafts.due(now))
        for job_id in self._timers.due(now):
            if job_id is None:
                self._unscheduled = True
            elif job_id in self._jobs:
                self._inbox.extend(due_events(self._jobs[job_id], now))

    # Events in ---------------------------------------------------------------------------------------------

    async def _handle_inbox(self) -> None:
        """Handle all that came in, job by job: many news of one job cost one write."""
        by_job = self._take_inbox()
        jobs = list(by_job)
        for start in range(0, len(jobs), _WRITES_AT_ONCE):
            batch = jobs[start : start + _WRITES_AT_ONCE]
            outcomes = await _side_by_side([self._handle_job(job_id, by_job[job_id]) for job_id in batch])
            refused = self._sort_failures(by_job, dict(zip(batch, outcomes, strict=True)))
            if refused is not None:
                for job_id in jobs[start + _WRITES_AT_ONCE :]:
                    self._inbox.extend(_lasting(by_job[job_id]))
                self._unscheduled = True
                raise refused

    def _take_inbox(self) -> "dict[JobId, Sequence[Event | Changed]]":
        """Take out what is to be handled now, by job; news of a record that was refused waits behind what was."""
        arrived: dict[JobId, list[Event | Changed]] = {}
        while self._inbox:
            item = self._inbox.popleft()
            arrived.setdefault(JobId(item) if isinstance(item, str) else item.job_id, []).append(item)
        now = self._clock.now()
        for job_id in self._postponed.due(now):
            arrived.setdefault(job_id, [])
        admitted = ((job_id, self._postponed.admit(job_id, items, now)) for job_id, items in arrived.items())
        return {job_id: items for job_id, items in admitted if items is not None}

    def _sort_failures(
        self, by_job: "dict[JobId, Sequence[Event | Changed]]", outcomes: dict[JobId, BaseException | None]
    ) -> StorageError | None:
        """Return the store's refusal, if there is one; a defect that one job met is told and costs only its news."""
        refused = None
        for job_id, error in outcomes.items():
            if isinstance(error, StorageError):
                self._postpone(job_id, by_job[job_id])
                if isinstance(error, UnreadableRecordError):
                    _log.error("job %s: its news waits until its record can be read: %s", job_id, error)
                else:
                    refused = error
                continue
            self._postponed.forget(job_id)
            if isinstance(error, Exception):
                _log.error("job %s: its news could not be handled", job_id, exc_info=error)
            elif error is not None:
                raise error
        return refused

    def _postpone(self, job_id: JobId, items: "Sequence[Event | Changed]") -> None:
        """Try again later what the store refused."""
        self._timers.wake(self._postponed.refuse(job_id, _lasting(items), self._clock.now()))

    async def _handle_job(self, job_id: JobId, items: "Sequence[Event | Changed]") -> None:
        events = [item for item in items if not isinstance(item, str)]
        reread = len(events) < len(items)
        before, draft = self._jobs.get(job_id), self._drafts.get(job_id)
        kept = draft.base if draft is not None else before
        while True:
            if before is None or reread:
                kept = before = await self._read(job_id)
                if before is None:
                    return
            after, orders = self._advance(before, [draft.found, *events] if draft is not None else events)
            try:
                if draft is None and self._drafts.may_wait(before, after, events):
                    break
                if after is not kept:
                    why = next((event.reason for event in events if isinstance(event, GangShrunk)), "")
                    records = records_between(kept, after, self._clock.now(), shrunk_for=why)
                    after = await self._store.save(after, records)
                self._drafts.saved(job_id)
            except StaleVersionError:
                reread = True
                continue
            except NotFoundError:
                self._drop(job_id)
                return
            break
        self._keep(after)
        self._feed.publish(job_id)
        if orders or reread:
            self.lanes.submit(job_id, standing(after))

    def _advance(self, job: Job, events: Iterable[Event]) -> tuple[Job, bool]:
        orders = False
        for event in events:
            try:
                outcome = advance(job, event)
            except InvalidTransitionError as error:
                _log.warning("%s", error)
                continue
            job = outcome.job
            orders = orders or bool(outcome.instructions)
        return job, orders

    async def _read(self, job_id: JobId) -> Job | None:
        try:
            return await self._store.get(job_id)
        except NotFoundError:
            self._drop(job_id)
            return None

    def _keep(self, job: Job) -> None:
        """Remember a job as long as anything may still happen to it."""
        before = self._jobs.get(job.id)
        if before is None or _footprint(before) != _footprint(job):
            self._unscheduled = True
        if job.placeable:
            if job.retry_at is not None:
                self._timers.wake(job.retry_at)
        else:
            self._explanations.pop(job.id, None)
        if is_measured(job):
            self._earlier.note(job)
            if job.placeable and (recalled := self._earlier.recall(job, self._clock.now())) is not None:
                self._inbox.append(recalled)
        self._note_candidate(job)
        self._timers.note(job)
        if job.finished and not job.holding and not job.deleting and job.spec.policy.ttl_seconds is None:
            self._jobs.pop(job.id, None)
        else:
            self._jobs[job.id] = job

    def _note_candidate(self, job: Job) -> None:
        if not (job.placeable or job.holding):
            self._forget_candidate(job.id)
            return
        self._candidates[job.id] = job
        if job.placeable or any(role.elastic for role in job.spec.roles):
            self._undecided.add(job.id)
        else:
            self._undecided.discard(job.id)

    def _forget_candidate(self, job_id: JobId) -> None:
        self._candidates.pop(job_id, None)
        self._undecided.discard(job_id)

    def _drop(self, job_id: JobId) -> None:
        self._forget_candidate(job_id)
        self._drafts.saved(job_id)
        if self._jobs.pop(job_id, None) is not None:
            self._unscheduled = True
        self._explanations.pop(job_id, None)
        self._meter.forget(job_id)
        self._feed.publish(job_id)

    # Decisions ---------------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        self._unscheduled = False
        try:
            await self._decide()
        except Exception:
            self._unscheduled = True  # whatever went wrong, it is still to be done
            raise

    async def _decide(self) -> None:
        # What queues have used must be kept account of even while nobody waits, where it counts.
        if not self._undecided and self._account is None:
            self._explanations = {}
            return
        nodes = self._nodes if self._nodes is not None else await self._engine.nodes()
        queues = self._queues if self._queues is not None else await read_queues(self._store)
        if not self._unscheduled:
            # Otherwise news came in meanwhile, perhaps of just these: the next cycle reads them again.
            self._nodes, self._queues = nodes, queues
        now = self._clock.now()
        jobs = self._contenders(now)
        if isinstance(self._engine, Confining):
            jobs = await self._engine.confine(tuple(jobs))
        if isinstance(self._engine, Releasing) and (going := self._engine.terminating(jobs)):
            jobs = (*jobs, *going)
        decision = self._decider.decide(jobs, nodes=nodes, queues=queues, now=now)
        self._explanations = dict(decision.explanations)
        owed = {each.job_id for each in decision.memory.nominations}
        self._line = Line(decision.explanations, self._candidates, owed, self._policies, now)
        self._inbox.extend(_decision_to_events(decision, now))
        if decision.wake_at is not None and decision.wake_at > now:
            self._timers.wake(decision.wake_at)
        if self._account is not None:
            await self._account.keep(self._decider.usage)

    def _contenders(self, now: Timestamp) -> Collection[Job]:
        """All that hold machines or may have some; one whose record is refused could not be told that it was placed."""
        if not self._postponed:
            return self._candidates.values()
        jobs = self._candidates.values()
        return [job for job in jobs if job.holding or not self._postponed.holds(job.id, now)]

    # Instructions out --------------------------------------------------------------------------------------

    async def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case RunGang(gang):
                await self._engine.run(gang)
            case FinishGang(gang):
                await self._engine.finish(gang)
            case StopGang(gang_id, grace_seconds, clean):
                await self._engine.stop(gang_id, grace_seconds, clean=clean)
            case ForgetJob(job_id):
                await self._engine.forget(job_id)
                await self._store.remove(job_id)
                self._drop(job_id)


def _lasting(items: "Sequence[Event | Changed]") -> "list[Event | Changed]":
    """Leave out decisions: when the store answers again they may no longer be right, so they are made anew."""
    return [item for item in items if not isinstance(item, _DECISIONS)]


async def _side_by_side(works: Sequence[Coroutine[object, object, None]]) -> list[BaseException | None]:
    """Do everything at once and return what each raised; a single piece of work needs no task of its own."""
    if len(works) > 1:
        return await asyncio.gather(*works, return_exceptions=True)
    try:
        await works[0]
    except Exception as error:  # noqa: BLE001  # handed to the caller, as gather does
        return [error]
    return [None]


def _footprint(job: Job) -> tuple[object, ...]:
    """What the scheduler sees of a job: while this stays the same, another cycle would decide the same."""
    ended = sum(1 for status in job.replicas if status.finished_at is not None)
    return (job.phase, job.holding, job.deleting, job.spec, job.scale, len(job.replicas), ended, job.replica_restarts)


def _decision_to_events(decision: Decision, at: Timestamp) -> Iterable[Event]:
    for eviction in decision.evictions:
        yield GangEvicted(job_id=eviction.job_id, at=at, reason=eviction.reason)
    for shrink in decision.shrinks:
        yield GangShrunk(job_id=shrink.job_id, at=at, removed=shrink.removed, reason=shrink.reason)
    for start in decision.starts:
        yield GangPlaced(job_id=start.job_id, at=at, placement=start.placement, gpu_slots=start.gpu_slots)
    for grow in decision.grows:
        yield GangGrown(job_id=grow.job_id, at=at, added=grow.added, gpu_slots=grow.gpu_slots)
