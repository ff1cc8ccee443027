"""Watches over running jobs whose policy asks for it: measures, keeps stacks, and tells the lifecycle what it finds."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from gangline.engines.interface import Watchful
from gangline.lifecycle import Event
from gangline.lifecycle.events import GangStalled, ReplicaNoticed
from gangline.lifecycle.watching import STALLED, Notice, Watched, heard, notices, seen
from gangline.model import GangId, Job, JobId, Metric, Phase, ReplicaId, StallAction, Timestamp

LONGEST_LOOK_SECONDS = 30.0
_SHORTEST_LOOK_SECONDS = 1.0
_MOST_ASKED = 3
"""A program that watches itself may say where it is a moment after it is found; one that cannot never will."""
_LOOKS = 4
"""How often a replica is looked at within the time that it may be silent."""


@dataclass(slots=True)
class _Run:
    """One attempt that is watched."""

    gang_id: GangId
    replicas: dict[ReplicaId, Watched] = field(default_factory=dict)
    told: dict[ReplicaId, str] = field(default_factory=dict)
    at_work: dict[ReplicaId, str] = field(default_factory=dict)
    """Where each replica was when the stacks of this attempt were kept."""
    asked: Counter[ReplicaId] = field(default_factory=Counter)
    """How often stacks were kept because this replica had stalled."""


class RunWatch:
    """What is known of every attempt that is watched; forgotten with it."""

    def __init__(self, engine: Watchful) -> None:
        self._engine = engine
        self._runs: dict[JobId, _Run] = {}

    def hear(self, job: Job, metric: Metric, now: Timestamp) -> None:
        """A replica has reported something."""
        if job.spec.policy.stalled is None or not job.holding:
            return
        known = self._run(job).replicas
        before = known.get(metric.replica) or Watched(active_at=now, seen_at=now, cpu_seconds=0.0)
        known[metric.replica] = heard(before, metric, now)

    async def look(self, jobs: Iterable[Job], now: Timestamp) -> list[Event]:
        """Look at all that run and are to be watched; return what is news."""
        present = {job.id: job for job in jobs if job.holding}
        for gone in self._runs.keys() - present.keys():
            del self._runs[gone]
        watched = [job for job in present.values() if job.spec.policy.stalled and job.phase is Phase.PROCESSING]
        return [event for job in watched for event in await self._look_at(job, now)]

    def _run(self, job: Job) -> _Run:
        run = self._runs.get(job.id)
        if run is None or run.gang_id != job.gang_id:
            run = self._runs[job.id] = _Run(job.gang_id)
        return run

    async def _look_at(self, job: Job, now: Timestamp) -> list[Event]:
        run = self._run(job)
        pulses = await self._engine.pulses(job.gang_id)
        # Of one that is not seen to run yet, steps may be known already.
        run.replicas |= {replica: seen(run.replicas.get(replica), pulse, now) for replica, pulse in pulses.items()}
        found = {each.replica: each for each in notices(job, run.replicas, now)}
        halted = [each for each in found.values() if each.message.startswith(STALLED)]
        unknown = [each.replica for each in halted if not run.at_work.get(each.replica)]
        if any(run.asked[replica] < _MOST_ASKED for replica in unknown):
            run.asked.update(unknown)
            places = await self._engine.keep_stacks(job.gang_id)
            run.at_work |= {replica: place for replica, place in places.items() if place}
        events = list[Event]()
        for replica in run.replicas:
            message = _with_place(found[replica], run.at_work) if replica in found else ""
            if message != run.told.get(replica, ""):
                run.told[replica] = message
                attempt = job.gang_id.attempt
                events.append(ReplicaNoticed(job_id=job.id, at=now, attempt=attempt, replica=replica, message=message))
        if not halted:
            run.at_work, run.asked = {}, Counter()
        elif events and (rule := job.spec.policy.stalled) is not None and rule.action is not StallAction.TELL:
            first = halted[0]
            message = f"{first.replica} {_with_place(first, run.at_work)}"
            events.append(GangStalled(job_id=job.id, at=now, attempt=job.gang_id.attempt, message=message))
        return events


def look_seconds(jobs: Iterable[Job]) -> float:
    """Return how long to wait before the next look."""
    rules = [job.spec.policy.stalled for job in jobs]
    shortest = min((rule.after_seconds for rule in rules if rule is not None), default=LONGEST_LOOK_SECONDS * _LOOKS)
    return min(max(shortest / _LOOKS, _SHORTEST_LOOK_SECONDS), LONGEST_LOOK_SECONDS)


def _with_place(notice: Notice, at_work: dict[ReplicaId, str]) -> str:
    place = at_work.get(notice.replica, "") if notice.message.startswith(STALLED) else ""
    return f"{notice.message}, in {place}" if place else notice.message
