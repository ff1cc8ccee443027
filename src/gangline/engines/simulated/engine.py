"""Runs gangs in virtual time. Deterministic: the same orders at the same moments give the same news."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

from gangline.engines.interface import Engine, EngineEvent, LogQuery, NodesChanged
from gangline.engines.simulated.timeline import Timeline
from gangline.engines.simulated.work import Measuring, StartTimes, Work
from gangline.lifecycle.events import (
    GangStopped,
    OutputsStored,
    ReplicaExited,
    ReplicaLost,
    ReplicaStarted,
    SpeedMeasured,
)
from gangline.model import (
    Clean,
    Gang,
    GangId,
    GangReplica,
    JobId,
    LogLine,
    Node,
    NodeName,
    NodeUsage,
    ReplicaId,
    ReplicaUsage,
    Resources,
    Usage,
)

Member = tuple[ReplicaId, int]
"""A replica and its incarnation."""


@dataclass(slots=True)
class _Running:
    """One gang: since when it has worked in its present form (None: it does not), and what is due next.

    ``begun`` and ``ended`` list the replicas whose start and end have been reported.
    """

    gang: Gang
    since: float | None = None
    due: int | None = None
    begun: set[Member] = field(default_factory=set)
    ended: set[Member] = field(default_factory=set)

    def live(self) -> list[GangReplica]:
        """The replicas that run now."""
        return [replica for replica in self.gang.replicas if _member(replica) in self.begun - self.ended]


class SimulatedEngine:
    """An engine without machines.

    ``start_seconds`` pass between the order to run replicas and their start (and again whenever a gang changes its
    size: the rest of the gang waits for them), unless the work knows better; ``stop_seconds`` between the order to stop
    and the news that all is free. Progress survives a stop, as with a checkpoint written on the way out.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        timeline: Timeline,
        work: Work,
        *,
        start_seconds: float = 0.0,
        stop_seconds: float = 0.0,
    ) -> None:
        self._nodes = tuple(nodes)
        self._timeline = timeline
        self._work = work
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._running: dict[GangId, _Running] = {}
        self._news: deque[EngineEvent] = deque()
        self._has_news = asyncio.Event()

    # For the simulator ---------------------------------------------------------------------------------------

    def take_news(self) -> list[EngineEvent]:
        """Everything that has happened since the last call; a simulator reads it here instead of ``events``."""
        news = list(self._news)
        self._news.clear()
        self._has_news.clear()
        return news

    def measure(self) -> list[SpeedMeasured]:
        """What programs report of their speed now, where the work has any that do; it may change how they go on."""
        work = self._work
        if not isinstance(work, Measuring):
            return []
        reports: list[SpeedMeasured] = []
        now = self._timeline.now()
        for running in self._running.values():
            if running.since is not None and running.since < now:
                seconds = now - running.since
                self._pause(running)
                report = work.measure(running.gang, seconds, now)
                reports += [] if report is None else [report]
                self._resume(running)
        return reports

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Nodes came, went or changed; replicas on nodes that are gone or not ready are lost."""
        self._nodes = tuple(nodes)
        alive = {node.name for node in nodes if node.ready}
        self._report(NodesChanged())
        for running in list(self._running.values()):
            for replica in running.gang.replicas:
                if replica.node not in alive:
                    self._lose(running, replica)

    # The contract --------------------------------------------------------------------------------------------

    async def nodes(self) -> Sequence[Node]:
        """Describe the nodes; see Engine."""
        return self._nodes

    async def run(self, gang: Gang) -> None:
        """Start, grow or shrink a gang; see Engine."""
        running = self._running.get(gang.id)
        before = running.gang.replicas if running is not None else ()
        known = {replica.id for replica in before}
        lost = [replica for replica in gang.replicas if replica.started and replica.id not in known]
        for replica in lost:
            self._report_lost(gang.id, replica)
        if lost:
            gang = replace(gang, replicas=tuple(replica for replica in gang.replicas if replica not in lost))
        if running is None:
            running = self._running[gang.id] = _Running(gang)
        elif running.due is not None and set(map(_member, gang.replicas)) == set(map(_member, before)):
            return  # the same order again
        self._pause(running)
        running.gang = gang
        fresh = [replica for replica in gang.replicas if _member(replica) not in running.begun]
        # A program that works in step with its peers starts anew with the rest of them.
        if fresh or (isinstance(self._work, Measuring) and running.begun):
            seconds = self._work.start_seconds(gang) if isinstance(self._work, StartTimes) else self._start_seconds
            running.due = self._later(seconds, lambda: self._begin(running, fresh))
        else:
            self._resume(running)

    async def finish(self, gang: Gang) -> None:
        """Store the outputs at once; see Engine."""
        running = self._running.get(gang.id)
        if running is not None:
            self._pause(running)
            running.ended |= running.begun
        self._report(OutputsStored(job_id=gang.id.job_id, at=self._timeline.now(), attempt=gang.id.attempt))

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        """Stop a gang after its stopping time, but not later than the grace period; see Engine."""
        del clean  # nothing is left to be looked at
        running = self._running.pop(gang_id, None)
        if running is not None:
            self._pause(running)
        seconds = min(self._stop_seconds, grace_seconds) if running is not None else 0.0
        self._later(seconds, lambda: self._report(_stopped(gang_id, self._timeline)))

    async def events(self) -> AsyncIterator[EngineEvent]:
        """Report what happens; see Engine."""
        while True:
            await self._has_news.wait()
            for event in self.take_news():
                yield event

    async def logs(self, query: LogQuery) -> AsyncIterator[LogLine]:
        """Simulated replicas write nothing; see Engine."""
        del query
        nothing: tuple[LogLine, ...] = ()
        for line in nothing:
            yield line

    async def usage(self) -> Usage:
        """Everything that runs uses exactly what it asked for; see Engine."""
        replicas = tuple(
            _usage_of(running.gang, replica) for running in self._running.values() for replica in running.live()
        )
        used: dict[NodeName, Resources] = {node.name: Resources() for node in self._nodes}
        for running in self._running.values():
            for replica in running.live():
                used[replica.node] = used[replica.node] + running.gang.spec.role(replica.id.role).resources
        return Usage(nodes=tuple(NodeUsage(node=name, used=amount) for name, amount in used.items()), replicas=replicas)

    async def forget(self, job_id: JobId) -> None:
        """There is nothing to remove; see Engine."""

    # Inside --------------------------------------------------------------------------------------------------

    def _begin(self, running: _Running, fresh: Sequence[GangReplica]) -> None:
        """The replicas that were ordered are there; the gang works from now on."""
        now = self._timeline.now()
        gang_id = running.gang.id
        for replica in fresh:
            running.begun.add(_member(replica))
            self._report(
                ReplicaStarted(
                    job_id=gang_id.job_id,
                    at=now,
                    attempt=gang_id.attempt,
                    replica=replica.id,
                    incarnation=replica.incarnation,
                )
            )
        self._resume(running)

    def _resume(self, running: _Running) -> None:
        running.since = self._timeline.now()
        running.due = self._later(self._work.seconds_left(running.gang), lambda: self._end(running))

    def _pause(self, running: _Running) -> None:
        """Count what was done so far and forget when the rest would have been."""
        if running.due is not None:
            self._timeline.cancel(running.due)
            running.due = None
        if running.since is not None:
            self._work.advance(running.gang, self._timeline.now() - running.since)
            running.since = None

    def _end(self, running: _Running) -> None:
        """The work is done: everybody ends who does so by itself and is not started again forever."""
        running.due = None
        self._pause(running)
        now = self._timeline.now()
        gang_id = running.gang.id
        for replica in running.gang.replicas:
            exit_code = self._work.exit_code(running.gang, replica)
            if exit_code == 0 and running.gang.spec.is_endless(replica.id.role):
                continue  # to end and begin anew without end would be all that happens from here on
            if exit_code is None or _member(replica) in running.ended:
                continue
            running.ended.add(_member(replica))
            self._report(
                ReplicaExited(
                    job_id=gang_id.job_id,
                    at=now,
                    attempt=gang_id.attempt,
                    replica=replica.id,
                    incarnation=replica.incarnation,
                    exit_code=exit_code,
                )
            )

    def _lose(self, running: _Running, replica: GangReplica) -> None:
        self._pause(running)
        kept = tuple(other for other in running.gang.replicas if other.id != replica.id)
        running.gang = replace(running.gang, replicas=kept)
        self._report_lost(running.gang.id, replica)

    def _report_lost(self, gang_id: GangId, replica: GangReplica) -> None:
        self._report(
            ReplicaLost(
                job_id=gang_id.job_id,
                at=self._timeline.now(),
                attempt=gang_id.attempt,
                replica=replica.id,
                incarnation=replica.incarnation,
                message="its node is gone",
            )
        )

    def _later(self, seconds: float, act: Callable[[], None]) -> int:
        return self._timeline.after(seconds, act)

    def _report(self, event: EngineEvent) -> None:
        self._news.append(event)
        self._has_news.set()


def _member(replica: GangReplica) -> Member:
    return replica.id, replica.incarnation


def _stopped(gang_id: GangId, timeline: Timeline) -> GangStopped:
    return GangStopped(job_id=gang_id.job_id, at=timeline.now(), attempt=gang_id.attempt)


def _usage_of(gang: Gang, replica: GangReplica) -> ReplicaUsage:
    asked = gang.spec.role(replica.id.role).resources
    return ReplicaUsage(
        job_id=gang.id.job_id,
        replica=ReplicaId(replica.id.role, replica.id.index),
        node=replica.node,
        cpu_millis=asked.cpu_millis,
        memory_mib=asked.memory_mib,
    )


_conforms: type[Engine] = SimulatedEngine
