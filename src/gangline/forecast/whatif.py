"""What would happen: the live state, run forward with jobs, machines and queues that are not as they are now."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gangline.forecast.course import Forecast, Launch, State, Stop, forecast
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, JobSpec, Node, NodeName, Queue, Timestamp
from gangline.scheduling import DEFAULT_POLICIES, Explanation, Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What one new job would meet. ``launch`` None: it is not seen to start, now or later. ``explanation`` None: it
    would start at once."""

    job: Job
    launch: Launch | None
    explanation: Explanation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How another job would fare: when it would start as things are, and when after the change (None: not seen to)."""

    job: Job
    starts_at: Timestamp | None
    would_start_at: Timestamp | None

    @property
    def delay_seconds(self) -> float | None:
        """How much later it would start (below zero: earlier); None if one of the two is not seen."""
        if self.starts_at is None or self.would_start_at is None:
            return None
        return self.would_start_at - self.starts_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A running job that would be stopped, as a whole or in part; ``resumes_at`` is when it would have its machines
    again (None: not seen to, or it only loses surplus)."""

    stop: Stop
    resumes_at: Timestamp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What would happen. ``stops`` are those that would not happen as things are; ``effects`` those jobs that start
    at another time, earliest first. ``exhausted`` says that not everything was followed to its start."""

    prospects: tuple[Prospect, ...]
    stops: tuple[Interruption, ...]
    effects: tuple[Effect, ...]
    exhausted: bool


def what_if(
    state: State,
    *,
    specs: Sequence[JobSpec] = (),
    more_nodes: Sequence[Node] = (),
    fewer_nodes: Collection[NodeName] = (),
    queues: Sequence[Queue] = (),
    jobs: Sequence[Job] = (),
    policies: Policies = DEFAULT_POLICIES,
) -> Answer:
    """Change some things in thought, and compare with how it would go otherwise.

    ``specs`` are submitted, nodes come and go; each of ``queues`` and ``jobs`` stands for the one of its name or id.
    """
    new = [new_job(JobId(f"what-if-{number}"), spec, state.now) for number, spec in enumerate(specs)]
    other_queues, other_jobs = {each.name: each for each in queues}, {each.id: each for each in jobs}
    changed = State(
        jobs=(*(other_jobs.get(job.id, job) for job in state.jobs), *new),
        nodes=(*(node for node in state.nodes if node.name not in fewer_nodes), *more_nodes),
        queues=tuple(other_queues.get(queue.name, queue) for queue in state.queues),
        now=state.now,
        removed=fewer_nodes,
    )
    before = forecast(state, policies=policies)
    after = forecast(changed, policies=policies)
    known = {(stop.job_id, stop.at) for stop in before.stops}
    return Answer(
        prospects=tuple(
            Prospect(job=job, launch=after.launches.get(job.id), explanation=after.explanations.get(job.id))
            for job in new
        ),
        stops=tuple(_interruption(stop, after) for stop in after.stops if (stop.job_id, stop.at) not in known),
        effects=_effects(state.jobs, before, after),
        exhausted=before.exhausted or after.exhausted,
    )


def _interruption(stop: Stop, after: Forecast) -> Interruption:
    launch = after.launches.get(stop.job_id) if stop.whole else None
    return Interruption(stop=stop, resumes_at=None if launch is None or launch.at < stop.at else launch.at)


def _effects(jobs: Collection[Job], before: Forecast, after: Forecast) -> tuple[Effect, ...]:
    effects = [
        Effect(job=job, starts_at=_start(before, job), would_start_at=_start(after, job))
        for job in jobs
        if job.placeable and _start(before, job) != _start(after, job)
    ]
    return tuple(sorted(effects, key=lambda effect: (effect.would_start_at or float("inf"), effect.job.id)))


def _start(found: Forecast, job: Job) -> Timestamp | None:
    launch = found.launches.get(job.id)
    return None if launch is None else launch.at
