"""The live state, run forward: which waiting job will start when, and who will be stopped for whom.

The real scheduler decides at every moment at which something is expected to happen, and the real lifecycle carries
its decisions out at once. Machines start and stop in no time, nothing fails and nobody submits anything further.
"""

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gangline.lifecycle import Event, advance
from gangline.lifecycle.events import GangEvicted, GangGrown, GangPlaced, GangShrunk, GangStopped
from gangline.model import Job, JobId, Node, NodeName, Queue, ReplicaId, Timestamp
from gangline.scheduling import DEFAULT_POLICIES, CycleMemory, Decision, Explanation, Policies, decide, take_snapshot
from gangline.scheduling.gangs.forecast import expected_end

UNDECLARED_SECONDS = 3600.0
"""How long a job is taken to run that has not started and declares nothing."""
BLUR = 0.02
"""Ends that lie this close together, as a part of their distance from now, count as one moment. Nobody's run time is
known that well, and the further ahead, the fewer cycles it takes."""
CYCLES_LIMIT = 1_000
"""How far to look: a cycle takes milliseconds, and a forecast should take about a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is known of a service: every job that waits or holds machines, all nodes, all queues.

    ``removed`` are nodes that are no longer among them: gangs with a replica there are stopped first.
    """

    jobs: Sequence[Job]
    nodes: Sequence[Node]
    queues: Sequence[Queue]
    now: Timestamp
    removed: Collection[NodeName] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A job gets its machines."""

    job_id: JobId
    at: Timestamp
    placement: Mapping[ReplicaId, NodeName]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A job that runs is stopped, as a whole or in part, so that another one gets its machines."""

    job_id: JobId
    at: Timestamp
    beneficiary: JobId | None
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is expected. ``launches`` has the first start of every job that waits, now or after it was stopped;
    ``explanations`` says why those wait that wait now.

    ``exhausted`` says that the look ahead ended before everything had started that ever will.
    """

    launches: Mapping[JobId, Launch]
    stops: tuple[Stop, ...]
    explanations: Mapping[JobId, Explanation]
    exhausted: bool


def forecast(
    state: State,
    *,
    wanted: Collection[JobId] | None = None,
    policies: Policies = DEFAULT_POLICIES,
    cycles: int = CYCLES_LIMIT,
) -> Forecast:
    """Run a state forward until all ``wanted`` jobs (None: all that wait) have started, or nothing more will."""
    course = _Course(state, policies)
    for _ in range(cycles):
        if course.reached(wanted) or not course.step():
            return course.result(exhausted=False)
    return course.result(exhausted=not course.reached(wanted))


class _Course:
    """One possible future, as far as it has been followed."""

    def __init__(self, state: State, policies: Policies) -> None:
        self._state = state
        self._policies = policies
        self._now = state.now
        self._alive = {job.id: job for job in state.jobs if job.placeable or job.holding}
        self._memory: CycleMemory | None = None
        self._ends: list[tuple[Timestamp, JobId, int]] = []
        self._left: dict[JobId, float] = {}
        self._end_of: dict[JobId, Timestamp] = {}
        self._explanations: Mapping[JobId, Explanation] | None = None
        self._stops: list[Stop] = []
        self.launches: dict[JobId, Launch] = {}
        self._expect_ends()

    def reached(self, wanted: Collection[JobId] | None) -> bool:
        """Whether all of these have started; None: whether nobody waits any more."""
        if wanted is None:
            return not any(job.placeable for job in self._alive.values())
        return all(job_id in self.launches for job_id in wanted)

    def result(self, *, exhausted: bool) -> Forecast:
        """What was found."""
        return Forecast(
            launches=self.launches,
            stops=tuple(self._stops),
            explanations=self._explanations or {},
            exhausted=exhausted,
        )

    def step(self) -> bool:
        """Decide once, and move on to the next moment if nothing came of it. False when nothing more will happen."""
        snapshot = take_snapshot(
            nodes=self._state.nodes,
            jobs=self._alive.values(),
            queues=self._state.queues,
            now=self._now,
            memory=self._memory,
        )
        decision = decide(snapshot, self._policies)
        self._memory = decision.memory
        if self._explanations is None:
            self._explanations = decision.explanations
        self._carry_out(decision)
        if decision.evictions or decision.shrinks:
            return True
        return self._move_on(decision.wake_at)

    def _expect_ends(self) -> None:
        """Let go of what is on its way out already, and note when the rest is expected to end."""
        state = self._state
        snapshot = take_snapshot(nodes=state.nodes, jobs=self._alive.values(), queues=state.queues, now=state.now)
        for held in snapshot.held.values():
            if held.releasing:
                self._stopped(held.job)
                continue
            self._will_end(held.job, expected_end(held, state.now))
            if any(status.node in state.removed for status in held.job.replicas):
                self._evict(held.job.id, None, "its nodes are removed")

    def _carry_out(self, decision: Decision) -> None:
        at = self._now
        for eviction in decision.evictions:
            self._evict(eviction.job_id, eviction.beneficiary, eviction.reason)
        for shrink in decision.shrinks:
            self._stop(shrink.job_id, shrink.beneficiary, whole=False)
            self._advance(GangShrunk(job_id=shrink.job_id, at=at, removed=shrink.removed, reason=shrink.reason))
        for start in decision.starts:
            self._advance(GangPlaced(job_id=start.job_id, at=at, placement=start.placement, gpu_slots=start.gpu_slots))
            launch = Launch(job_id=start.job_id, at=at, placement=start.placement)
            self.launches.setdefault(start.job_id, launch)
            job = self._alive[start.job_id]
            declared = job.spec.policy.expected_seconds
            seconds = self._left.get(job.id, UNDECLARED_SECONDS if declared is None else declared)
            self._will_end(job, Timestamp(at + seconds))
        for grow in decision.grows:
            self._advance(GangGrown(job_id=grow.job_id, at=at, added=grow.added, gpu_slots=grow.gpu_slots))

    def _move_on(self, wake_at: Timestamp | None) -> bool:
        """Go to the next moment, and let everybody go who ends then."""
        while self._ends and self._outdated(*self._ends[0]):
            heapq.heappop(self._ends)
        moments = [moment for moment in (self._ends[0][0] if self._ends else None, wake_at) if moment is not None]
        if not moments:
            return False
        self._now = self._together(max(self._now, min(moments)))
        while self._ends and self._ends[0][0] <= self._now:
            end, job_id, attempt = heapq.heappop(self._ends)
            if not self._outdated(end, job_id, attempt):
                del self._alive[job_id]
        return True

    def _together(self, moment: Timestamp) -> Timestamp:
        """The last of the ends that are too close to this moment, for its distance, to be told apart."""
        limit = moment + BLUR * (moment - self._state.now)
        return max((end for end, _, _ in self._ends if end <= limit), default=moment)

    def _outdated(self, end: Timestamp, job_id: JobId, attempt: int) -> bool:
        """Whether the gang that was to end then is gone already."""
        del end
        job = self._alive.get(job_id)
        return job is None or not job.holding or job.attempt != attempt

    def _will_end(self, job: Job, at: Timestamp) -> None:
        self._end_of[job.id] = at
        heapq.heappush(self._ends, (at, job.id, job.attempt))

    def _evict(self, job_id: JobId, beneficiary: JobId | None, reason: str) -> None:
        """Stop a gang that goes on later with what it had left."""
        self._stop(job_id, beneficiary, whole=True)
        self._left[job_id] = max(self._end_of[job_id] - self._now, 0.0)
        self._advance(GangEvicted(job_id=job_id, at=self._now, reason=reason))
        self._stopped(self._alive[job_id])

    def _stop(self, job_id: JobId, beneficiary: JobId | None, *, whole: bool) -> None:
        self._stops.append(Stop(job_id=job_id, at=self._now, beneficiary=beneficiary, whole=whole))

    def _stopped(self, job: Job) -> None:
        """Its machines are free; it waits again, or is gone."""
        self._advance(GangStopped(job_id=job.id, at=self._now, attempt=job.attempt))
        if not self._alive[job.id].placeable:
            del self._alive[job.id]

    def _advance(self, event: Event) -> None:
        self._alive[event.job_id] = advance(self._alive[event.job_id], event).job
