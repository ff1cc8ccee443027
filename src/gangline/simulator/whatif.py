"""What would happen: the live state, run forward with jobs not yet submitted or machines not yet bought."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gangline.lifecycle import new_job
from gangline.model import Job, JobId, JobSpec, Node, Timestamp
from gangline.scheduling import DEFAULT_POLICIES, Explanation, Policies
from gangline.simulator.forecast import Forecast, Launch, State, Stop, forecast


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What would happen. ``stops`` are those that would not happen as things are; ``effects`` those jobs that start
    at another time, earliest first. ``exhausted`` says that not everything was followed to its start."""

    prospects: tuple[Prospect, ...]
    stops: tuple[Stop, ...]
    effects: tuple[Effect, ...]
    exhausted: bool


def what_if(
    state: State,
    *,
    specs: Sequence[JobSpec] = (),
    more_nodes: Sequence[Node] = (),
    policies: Policies = DEFAULT_POLICIES,
) -> Answer:
    """Submit jobs and add machines in thought, and compare with how things would go otherwise."""
    new = [new_job(JobId(f"what-if-{number}"), spec, state.now) for number, spec in enumerate(specs)]
    changed = replace(state, jobs=(*state.jobs, *new), nodes=(*state.nodes, *more_nodes))
    before = forecast(state, policies=policies)
    after = forecast(changed, policies=policies)
    known = {(stop.job_id, stop.at) for stop in before.stops}
    return Answer(
        prospects=tuple(
            Prospect(job=job, launch=after.launches.get(job.id), explanation=after.explanations.get(job.id))
            for job in new
        ),
        stops=tuple(stop for stop in after.stops if (stop.job_id, stop.at) not in known),
        effects=_effects(state.jobs, before, after),
        exhausted=before.exhausted or after.exhausted,
    )


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
