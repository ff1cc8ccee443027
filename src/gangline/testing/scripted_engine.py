"""An engine that runs nothing: replicas start at once, and end as a script says or when a test tells them to."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gangline.engines.interface import Engine, EngineEvent, LogQuery
from gangline.lifecycle.events import GangEvent, GangStopped, OutputsStored, ReplicaExited, ReplicaLost, ReplicaStarted
from gangline.model import (
    Clean,
    Clock,
    Gang,
    GangId,
    GangReplica,
    JobId,
    JobSpec,
    LogLine,
    Metric,
    Node,
    NodeUsage,
    ReplicaId,
    ReplicaUsage,
    Resources,
    Stream,
    Usage,
)

_KILLED = 128 + 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a replica does until its end. A sequence of values of a metric is one value for each step, from 0 on."""

    exit_code: int = 0
    metrics: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    output: Sequence[str] = ()
    errors: Sequence[str] = ()
    """Lines on standard error."""


Script = Callable[[JobSpec, ReplicaId], Outcome | None]
"""What becomes of a replica that starts; None lets it run until somebody ends it."""


def run_until_told(spec: JobSpec, replica: ReplicaId) -> Outcome | None:
    """The script by default: nothing ends by itself."""
    del spec, replica
    return None


@dataclass(slots=True)
class _Attempt:
    """One attempt: the incarnation of every replica it ever had, those that run now, and what was written."""

    spec: JobSpec
    known: dict[ReplicaId, int] = field(default_factory=dict)
    running: dict[ReplicaId, GangReplica] = field(default_factory=dict)
    lines: list[LogLine] = field(default_factory=list)
    over: bool = False


class ScriptedEngine:
    """Keeps the contract of engines as far as that goes without machines: nothing of it outlives the object."""

    def __init__(self, nodes: Sequence[Node], clock: Clock, script: Script = run_until_told) -> None:
        self._nodes = tuple(nodes)
        self._clock = clock
        self._script = script
        self._attempts: dict[GangId, _Attempt] = {}
        self._news: deque[EngineEvent] = deque()
        self._moved = asyncio.Event()
        """Replaced whenever something happens, for those who read on."""

    # For whoever writes the test -----------------------------------------------------------------------------

    def running(self, gang_id: GangId) -> tuple[ReplicaId, ...]:
        """Return the replicas of a gang that run now."""
        attempt = self._attempts.get(gang_id)
        return () if attempt is None else tuple(attempt.running)

    def report(self, gang_id: GangId, replica: ReplicaId, did: Outcome) -> None:
        """Let a running replica report and write all that an outcome has but its end."""
        now = self._clock.now()
        for name, values in did.metrics.items():
            steps = enumerate(values) if isinstance(values, Sequence) else ((None, values),)
            for step, value in steps:
                self._tell(
                    Metric(
                        job_id=gang_id.job_id,
                        replica=replica,
                        name=name,
                        value=float(value),
                        step=step,
                        at=self._clock.now(),
                    )
                )
        for stream, texts in ((Stream.STDOUT, did.output), (Stream.STDERR, did.errors)):
            self._attempts[gang_id].lines.extend(
                LogLine(replica=replica, attempt=gang_id.attempt, at=now, stream=stream, text=text) for text in texts
            )

    def end(self, gang_id: GangId, replica: ReplicaId, outcome: Outcome) -> None:
        """Let a running replica do what the outcome says, to its end."""
        self.report(gang_id, replica, outcome)
        ended = self._attempts[gang_id].running.pop(replica)
        incarnation = ended.incarnation
        self._say(ReplicaExited, gang_id, replica=replica, incarnation=incarnation, exit_code=outcome.exit_code)

    def take_news(self) -> list[EngineEvent]:
        """Return everything that has happened since the last call, for who reads it here instead of ``events``."""
        news = list(self._news)
        self._news.clear()
        return news

    # The contract --------------------------------------------------------------------------------------------

    async def nodes(self) -> Sequence[Node]:
        """Describe the nodes; see Engine."""
        return self._nodes

    async def run(self, gang: Gang) -> None:
        """Start what does not run, drop what is no longer listed; see Engine."""
        attempt = self._attempts.setdefault(gang.id, _Attempt(gang.spec))
        listed = {replica.id for replica in gang.replicas}
        attempt.running = {name: replica for name, replica in attempt.running.items() if name in listed}
        for replica in gang.replicas:
            if replica.incarnation <= attempt.known.get(replica.id, -1):
                continue
            attempt.known[replica.id] = replica.incarnation
            if replica.started:
                self._say(ReplicaLost, gang.id, replica=replica.id, incarnation=replica.incarnation)
                continue
            attempt.running[replica.id] = replica
            self._say(ReplicaStarted, gang.id, replica=replica.id, incarnation=replica.incarnation)
            outcome = self._script(gang.spec, replica.id)
            if outcome is not None:
                self.end(gang.id, replica.id, outcome)

    async def finish(self, gang: Gang) -> None:
        """End what still runs; outputs are not stored anywhere; see Engine."""
        if gang.id in self._attempts:
            self._attempts[gang.id].running.clear()
        self._say(OutputsStored, gang.id)

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        """End everything at once; see Engine."""
        del grace_seconds, clean
        if gang_id in self._attempts:
            self._attempts[gang_id].running.clear()
            self._attempts[gang_id].over = True
        self._say(GangStopped, gang_id)

    async def kill(self, gang_id: GangId, replica: ReplicaId) -> bool:
        """End one replica as a signal would; see Saboteur."""
        if replica not in self.running(gang_id):
            return False
        self.end(gang_id, replica, Outcome(exit_code=_KILLED))
        return True

    async def events(self) -> AsyncIterator[EngineEvent]:
        """Report what happens; see Engine."""
        while True:
            moved = self._moved
            for event in self.take_news():
                yield event
            await moved.wait()

    async def logs(self, query: LogQuery) -> AsyncIterator[LogLine]:
        """Return what was written; see Engine."""
        last = max((gang_id.attempt for gang_id in self._attempts if gang_id.job_id == query.job_id), default=0)
        attempt = self._attempts.get(GangId(query.job_id, query.attempt or last))
        read = 0
        while attempt is not None:
            moved, over, lines = self._moved, attempt.over, attempt.lines[read:]
            for line in _narrowed(lines, query):
                yield line
            read += len(lines)
            query = replace(query, tail=None)  # what is written from now on is wanted whole
            if over or not query.follow:
                return
            await moved.wait()

    async def usage(self) -> Usage:
        """What runs uses exactly what it asked for; see Engine."""
        used = {node.name: Resources() for node in self._nodes}
        replicas = []
        for gang_id, attempt in self._attempts.items():
            for replica in attempt.running.values():
                asked = attempt.spec.role(replica.id.role).resources
                used[replica.node] += asked
                replicas.append(
                    ReplicaUsage(
                        job_id=gang_id.job_id,
                        replica=replica.id,
                        node=replica.node,
                        cpu_millis=asked.cpu_millis,
                        memory_mib=asked.memory_mib,
                    )
                )
        nodes = tuple(NodeUsage(node=name, used=amount) for name, amount in used.items())
        return Usage(nodes=nodes, replicas=tuple(replicas))

    async def forget(self, job_id: JobId) -> None:
        """Drop what the job wrote; see Engine."""
        self._attempts = {gang_id: kept for gang_id, kept in self._attempts.items() if gang_id.job_id != job_id}

    # Inside --------------------------------------------------------------------------------------------------

    def _say(self, kind: type[GangEvent], gang_id: GangId, **facts: object) -> None:
        news = kind(job_id=gang_id.job_id, at=self._clock.now(), attempt=gang_id.attempt, **facts)
        self._tell(news)

    def _tell(self, event: EngineEvent) -> None:
        self._news.append(event)
        self._moved.set()
        self._moved = asyncio.Event()


def _narrowed(lines: Sequence[LogLine], query: LogQuery) -> list[LogLine]:
    found = [
        line
        for line in lines
        if query.role in (None, line.replica.role)
        and query.index in (None, line.replica.index)
        and (query.since is None or line.at >= query.since)
    ]
    if query.tail is None:
        return found
    later: Counter[ReplicaId] = Counter()
    kept = []
    for line in reversed(found):
        later[line.replica] += 1
        if later[line.replica] <= query.tail:
            kept.append(line)
    return kept[::-1]


_conforms: type[Engine] = ScriptedEngine
