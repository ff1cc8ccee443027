"""Which trials of an Experiment begin and end now. Pure."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import median

from gangline.dialects.katib import Experiment, experiment_of, stand_in, train_job_of, trial_name, trial_to_job
from gangline.dialects.katib.templates import RUNTIME_FIELD
from gangline.dialects.trainer import runtime_of
from gangline.errors import InvalidInputError
from gangline.kinds.experiment.trials import KnownTrial, counting_value, known_trials, observe, parsed, reports_by_job
from gangline.kinds.kind import NewJob, Owned, Plan
from gangline.kinds.train_job import find_runtime
from gangline.model import JobId, Phase, Timestamp
from gangline.model.kinds.experiment import (
    ExperimentProgress,
    ExperimentRecord,
    ExperimentSpec,
    Observation,
    TrialState,
)
from gangline.model.kinds.sweep import Assignment, Budget, End, EndReason, Goal, Objective, Sweep, SweepSpec
from gangline.sweeps import Trial, plan
from gangline.sweeps.generations import PARENT

_ENDLESS = 100_000
"""Trials of a search without a limit of its own: upstream would go on until its goal is reached."""
_LOOK_SECONDS = 2.0
_PHASES = {
    TrialState.SUCCEEDED: Phase.COMPLETED,
    TrialState.METRICS_UNAVAILABLE: Phase.COMPLETED,
    TrialState.FAILED: Phase.FAILED,
}
"""What a sweep makes of a trial, where its job itself may say something else."""


@lru_cache(maxsize=256)
def as_sweep(manifest_json: str, template_json: str) -> SweepSpec:
    """Return an Experiment as the sweep that it is."""
    experiment = experiment_of(manifest_json, template_json)
    algorithm, objective = experiment.algorithm, experiment.objective
    failures = None if experiment.max_trials is None else experiment.max_trials + 1
    if experiment.max_failed is not None:
        failures = max(1, experiment.max_failed)
    return SweepSpec(
        name=experiment.name,
        template=stand_in(experiment).spec,
        parameters=tuple(each.parameter(position) for position, each in enumerate(experiment.space)),
        sampler=algorithm.sampler,
        settings=algorithm.settings,
        seed=algorithm.seed,
        parallelism=experiment.parallel,
        objective=Objective(objective.metric, objective.goal, objective.target),
        budget=Budget(trials=experiment.max_trials or _ENDLESS, failures=failures),
    )


def plan_experiment(record: ExperimentRecord, owned: Owned, now: Timestamp) -> Plan[ExperimentProgress]:
    """Say which trials begin and end now."""
    try:
        status = _with_template(record.status, record.spec, owned)
        experiment = parsed(replace(record, status=status))
        if (missing := _missing(experiment)) is not None:
            return Plan(status=_ended(status, End(reason=EndReason.SAMPLER_FAILED, message=missing), now))
        search_spec = as_sweep(record.spec.manifest_json, status.template_json)
    except InvalidInputError as error:  # a ConfigMap's template or a runtime: all else was read when it was submitted
        return Plan(status=_ended(record.status, End(reason=EndReason.SAMPLER_FAILED, message=str(error)), now))
    record = replace(record, status=status)
    reports = reports_by_job(owned.history)
    trials = [
        observe(experiment, each, reports.get(each.job.id, {}), now)
        if each.state.ended and each.observation is None
        else each
        for each in known_trials(record, experiment, owned)
    ]
    pruned = _pruned(experiment, status.search.pruned, trials, reports)
    search = replace(status.search, pruned=pruned)
    sweep = Sweep(
        id=record.id,
        spec=search_spec,
        status=search,
        created_at=record.created_at,
    )
    wanted = plan(sweep, [_as_sweeps(experiment, each) for each in trials], now)
    end = _judged(wanted.end, trials)
    search = replace(search, begun=wanted.begun, end=end)
    observations = tuple(each.observation for each in trials if each.observation is not None)
    status = replace(status, search=search, observations=_kept(status.observations, observations))
    if status.running_at is None:
        restarted = now if search.begun > len(wanted.start) else None
        status = replace(status, running_at=now, restarted_at=restarted)
    living = [each.job.id for each in trials if not each.job.finished]
    over = end is not None and not living
    if over and search.finished_at is None:
        status = replace(status, search=replace(search, finished_at=now), budget=experiment.max_trials)
    stopped = [each.job.id for each in trials if not each.job.finished and _is_done(each, pruned)]
    return Plan(
        status=status,
        create=tuple(_new_job(record, experiment, each) for each in wanted.start),
        cancel=tuple(living) if end is not None else tuple(stopped),
        again_at=_next_look(experiment, trials, now),
    )


def _with_template(status: ExperimentProgress, spec: ExperimentSpec, owned: Owned) -> ExperimentProgress:
    """Keep what is found elsewhere: what is changed there later is for other Experiments.

    That is the template of a ConfigMap, and the runtime of TrainJobs.
    """
    source = experiment_of(spec.manifest_json).template.config_map
    if status.template_json:
        return status
    found = ""
    if source is not None:
        found = owned.config_maps.get((source.namespace, source.name), {}).get(source.path, "")
        if not found:
            return status
    experiment = experiment_of(spec.manifest_json, found)
    if (wanted := train_job_of(experiment)) is None:
        return replace(status, template_json=found)
    runtime = find_runtime(wanted, owned.related)
    if runtime is None:
        return status
    return replace(status, template_json=experiment.template.with_runtime(runtime.spec.manifest_json))


def _missing(experiment: Experiment) -> str | None:
    """Say what of a template is not there, if something is not."""
    template = experiment.template
    if template.spec_json is None:
        source = template.config_map
        where = f"{source.namespace}/{source.name}" if source is not None else ""
        path = source.path if source is not None else ""
        return f"the ConfigMap {where} with the template '{path}' is not there, or is another namespace's own"
    wanted = train_job_of(experiment)
    if wanted is None or RUNTIME_FIELD in json.loads(template.spec_json):
        return None
    kind, name = runtime_of(wanted)
    return f"there is no {kind} '{name}'"


def _ended(status: ExperimentProgress, end: End, now: Timestamp) -> ExperimentProgress:
    return replace(status, search=replace(status.search, end=end, finished_at=now), running_at=status.running_at or now)


def _kept(before: Sequence[Observation], now: Sequence[Observation]) -> tuple[Observation, ...]:
    """Add what was observed; a trial whose job was deleted keeps what was seen of it."""
    found = {each.trial: each for each in (*now, *before)}
    return tuple(found[number] for number in sorted(found))


def _is_done(trial: KnownTrial, pruned: Sequence[int]) -> bool:
    return trial.state.ended or trial.assignment.number in pruned


def _judged(end: End | None, trials: Sequence[KnownTrial]) -> End | None:
    """Call it a failure if all trials were tried and none of them has a result."""
    if end is None or end.failed or end.reason is EndReason.TARGET_REACHED:
        return end
    if any(each.state in (TrialState.SUCCEEDED, TrialState.EARLY_STOPPED, TrialState.KILLED) for each in trials):
        return end
    if any(not each.state.ended for each in trials) or not trials:
        return end
    return End(reason=EndReason.TOO_MANY_FAILURES, message=f"none of its {len(trials)} trials has a result")


def _as_sweeps(experiment: Experiment, trial: KnownTrial) -> Trial:
    """Return a trial as a sweep knows it: what its conditions say of its job is what became of it."""
    job, phase = trial.job, _PHASES.get(trial.state)
    if phase is not None and job.phase is not phase:
        job = replace(job, history=(*job.history, replace(job.history[-1], phase=phase)))
    value = counting_value(experiment, trial.observation.metrics) if trial.observation is not None else None
    results = {} if value is None or trial.state is TrialState.FAILED else {experiment.objective.metric: value}
    return Trial(job=job, assignment=trial.assignment, results=results, result=next(iter(results.values()), None))


def _pruned(
    experiment: Experiment,
    before: tuple[int, ...],
    trials: Sequence[KnownTrial],
    reports: Mapping[JobId, Mapping[str, Sequence[float]]],
) -> tuple[int, ...]:
    """Add the running trials that are worse than the median of what others had at the first steps."""
    rule = experiment.medianstop
    if rule is None:
        return before
    others = [
        each.observation.early
        for each in trials
        if each.state is TrialState.SUCCEEDED and each.observation is not None and each.observation.early is not None
    ]
    if len(others) < rule.min_trials:
        return before
    threshold, better = median(others), max if experiment.objective.goal is Goal.MAXIMIZE else min
    hopeless = list[int]()
    for each in trials:
        values = reports.get(each.job.id, {}).get(experiment.objective.metric, ())
        values = [value for value in values if math.isfinite(value)]
        running = each.state is TrialState.RUNNING and each.assignment.number not in before
        if running and len(values) >= rule.start_step:
            best = better(values)
            if better(best, threshold) != best:
                hopeless.append(each.assignment.number)
    return (*before, *hopeless)


def _next_look(experiment: Experiment, trials: Sequence[KnownTrial], now: Timestamp) -> Timestamp | None:
    if experiment.medianstop is None or not any(each.state is TrialState.RUNNING for each in trials):
        return None
    return Timestamp(now + _LOOK_SECONDS)


def _new_job(record: ExperimentRecord, experiment: Experiment, assignment: Assignment) -> NewJob:
    number = assignment.number
    name = trial_name(experiment.name, record.id, number)
    ancestor = assignment.values.get(PARENT)
    parent = None if ancestor is None else trial_name(experiment.name, record.id, int(ancestor))
    made = trial_to_job(experiment, assignment.values, number=number, name=name, env=record.spec.env, parent=parent)
    policy = replace(made.spec.policy, ttl_seconds=None)  # a trial without its job would be lost
    return NewJob(record.job_id(number), replace(made.spec, policy=policy))
