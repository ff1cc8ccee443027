"""Runs the real controller on a virtual clock: arrivals in, finished jobs out."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gangline.controller import Controller
from gangline.engines.simulated import FixedWork, SimulatedEngine, Timeline, Work
from gangline.kinds.queue import QUEUE
from gangline.lifecycle import new_job
from gangline.lifecycle.events import CheckpointSaved, ReplicaStarted
from gangline.model import Job, JobId, Node, Queue, QueueStatus, Timestamp
from gangline.model.record import Record, RecordId
from gangline.scheduling import DEFAULT_POLICIES, Policies
from gangline.simulator.traces.arrival import Arrival
from gangline.storage.memory import MemoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The world of a simulation.

    ``start_seconds`` and ``stop_seconds`` are what machines take to start and stop replicas. With ``tick_seconds``
    the controller sees news only at whole multiples of it, and decides at each, as in simulators that work in rounds.
    """

    nodes: Sequence[Node]
    queues: Sequence[Queue] = ()
    policies: Policies = DEFAULT_POLICIES
    start_seconds: float = 0.0
    stop_seconds: float = 0.0
    tick_seconds: float = 0.0
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Every job as it ended, and when the simulation did."""

    jobs: tuple[Job, ...]
    ended_at: Timestamp


def simulate(setup: Setup, arrivals: Iterable[Arrival], work: Work | None = None) -> Outcome:
    """Run all arrivals to their end (or to ``setup.until``)."""
    ordered = sorted(arrivals, key=lambda arrival: arrival.at)
    ids = [JobId(arrival.spec.name) for arrival in ordered]
    model = work or FixedWork({job_id: arrival.seconds for job_id, arrival in zip(ids, ordered, strict=True)})
    run = _Run(setup, model)
    asyncio.run(run.through(list(zip(ids, ordered, strict=True))))
    return run.outcome


class _Run:
    def __init__(self, setup: Setup, work: Work) -> None:
        self._setup = setup
        self._timeline = Timeline()
        self._engine = SimulatedEngine(
            setup.nodes,
            self._timeline,
            work,
            start_seconds=setup.start_seconds,
            stop_seconds=setup.stop_seconds,
        )
        self._store = MemoryStore()
        self._controller = Controller(
            store=self._store, engine=self._engine, clock=self._timeline, policies=setup.policies
        )
        self.outcome = Outcome(jobs=(), ended_at=self._timeline.now())

    async def through(self, arrivals: Sequence[tuple[JobId, Arrival]]) -> None:
        """Feed everything in, moment by moment. Returns nothing: ``asyncio.run`` writes out what its task returns."""
        for queue in self._setup.queues:
            await self._store.records(QUEUE).create(
                Record(id=RecordId(queue.name), spec=queue, status=QueueStatus(), created_at=Timestamp(0.0))
            )
        await self._controller.recover()
        coming = list(reversed(arrivals))
        while True:
            moment = self._next_moment(coming[-1][1] if coming else None)
            if moment is None or (self._setup.until is not None and moment > self._setup.until):
                break
            self._timeline.move_to(moment)
            while coming and coming[-1][1].at <= self._timeline.now():
                await self._submit(*coming.pop())
            if self._setup.tick_seconds:
                self._controller.queues_changed()
                for report in self._engine.measure():
                    self._controller.hear(report)
            await self._settle()
            if not coming and self._timeline.next is None and not self._busy():
                break
        jobs = [await self._store.get(job_id) for job_id, _ in arrivals[: len(arrivals) - len(coming)]]
        self.outcome = Outcome(jobs=tuple(jobs), ended_at=self._timeline.now())

    def _next_moment(self, arrival: Arrival | None) -> float | None:
        """When something happens next; in a world of rounds, the tick at which it is noticed."""
        moments = (self._timeline.next, self._controller.next_moment, None if arrival is None else arrival.at)
        moment = min((at for at in moments if at is not None), default=None)
        tick = self._setup.tick_seconds
        if moment is None or not tick:
            return moment
        # While anything runs every tick counts: what jobs have attained changes their rank without any event.
        following = self._timeline.now() + tick
        return following if self._timeline.next is not None else max(-(-moment // tick) * tick, following)

    def _busy(self) -> bool:
        """Whether time alone will still bring something about."""
        return self._controller.next_moment is not None

    async def _submit(self, job_id: JobId, arrival: Arrival) -> None:
        await self._store.create(new_job(job_id, arrival.spec, arrival.at))
        self._controller.changed(job_id)

    async def _settle(self) -> None:
        """Let controller and engine talk until neither has anything to say at this moment."""
        while True:
            await self._controller.settle()
            await self._controller.lanes.drain()
            self._timeline.move_to(self._timeline.now())
            news = self._engine.take_news()
            if not news:
                return
            for event in news:
                self._controller.hear(event)
                if isinstance(event, ReplicaStarted):
                    # Progress survives a stop here, so whatever runs is one that saves its work.
                    self._controller.hear(CheckpointSaved(job_id=event.job_id, at=event.at))
