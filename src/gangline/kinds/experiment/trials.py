"""The trials of an Experiment: where each is and what it reported, judged from its job. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gangline.dialects.katib import Experiment, Strategy, Verdict, experiment_of, verdict_of
from gangline.dialects.katib.trial import values_of
from gangline.kinds.kind import Owned
from gangline.model import Job, JobId, Metric, Phase, Timestamp
from gangline.model.kinds.experiment import ExperimentRecord, MetricSummary, Observation, TrialState
from gangline.model.kinds.sweep import TRIAL_LABEL as NUMBER_LABEL
from gangline.model.kinds.sweep import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTrial:
    """A trial as the plan sees it: its job, what was chosen for it, and where it is."""

    job: Job
    assignment: Assignment
    state: TrialState
    observation: Observation | None = None


def parsed(record: ExperimentRecord) -> Experiment:
    """Read the Experiment of a record, with the template that was found for it."""
    return experiment_of(record.spec.manifest_json, record.status.template_json)


def known_trials(record: ExperimentRecord, experiment: Experiment, owned: Owned) -> tuple[KnownTrial, ...]:
    """Return the trials there are, in their order; what ended a while ago is as it was seen then."""
    observed = {each.trial: each for each in record.status.observations}
    found = list[KnownTrial]()
    for job in owned.jobs:
        label = job.spec.labels.get(NUMBER_LABEL, "")
        values = values_of(job)
        if not label.isdigit() or values is None or job.id != record.job_id(int(label)):
            continue
        number = int(label)
        assignment = Assignment(number=number, values=values)
        if (seen := observed.get(number)) is not None:
            found.append(KnownTrial(job=job, assignment=assignment, state=seen.state, observation=seen))
        else:
            state = _state(record, experiment, job, number)
            found.append(KnownTrial(job=job, assignment=assignment, state=state))
    return tuple(sorted(found, key=lambda each: each.assignment.number))


def _state(record: ExperimentRecord, experiment: Experiment, job: Job, number: int) -> TrialState:
    pruned = number in record.status.search.pruned
    if job.phase is Phase.CANCELLED:
        return TrialState.EARLY_STOPPED if pruned else TrialState.KILLED
    verdict = verdict_of(experiment, job)
    if verdict is Verdict.ACTIVE:
        return TrialState.RUNNING if job.phase is Phase.PROCESSING else TrialState.PENDING
    return TrialState.SUCCEEDED if verdict is Verdict.SUCCEEDED else TrialState.FAILED


def reports_by_job(history: Iterable[Metric]) -> dict[JobId, dict[str, list[float]]]:
    """Sort what was reported: by job and metric, in the order of time."""
    found = dict[JobId, dict[str, list[float]]]()
    for metric in sorted(history, key=lambda each: (each.at, each.step or 0)):
        found.setdefault(metric.job_id, {}).setdefault(metric.name, []).append(metric.value)
    return found


def observe(
    experiment: Experiment, trial: KnownTrial, reports: Mapping[str, Sequence[float]], now: Timestamp
) -> KnownTrial:
    """Note how a trial ended and what it had reported."""
    metrics = tuple(_summary(name, reports.get(name, ())) for name in experiment.objective.metrics)
    values = [each for each in reports.get(experiment.objective.metric, ()) if math.isfinite(each)]
    state = trial.state
    if state is TrialState.SUCCEEDED and counting_value(experiment, metrics) is None:
        state = TrialState.METRICS_UNAVAILABLE
    first = values[: experiment.medianstop.start_step] if experiment.medianstop is not None else []
    observation = Observation(
        trial=trial.assignment.number,
        state=state,
        at=trial.job.finished_at or now,
        metrics=metrics if values else (),
        early=sum(first) / len(first) if first else None,
    )
    return replace(trial, state=state, observation=observation)


def _summary(name: str, values: Sequence[float]) -> MetricSummary:
    finite = [each for each in values if math.isfinite(each)]
    if not finite:
        return MetricSummary(name=name)
    latest = values[-1] if math.isfinite(values[-1]) else None
    return MetricSummary(name=name, latest=latest, least=min(finite), most=max(finite))


def counting_value(experiment: Experiment, metrics: Iterable[MetricSummary]) -> float | None:
    """Return the value of the objective that counts, by its strategy."""
    wanted = experiment.objective
    found = next((each for each in metrics if each.name == wanted.metric), None)
    if found is None:
        return None
    match wanted.strategies[wanted.metric]:
        case Strategy.MIN:
            return found.least
        case Strategy.MAX:
            return found.most
        case _:
            return found.latest
