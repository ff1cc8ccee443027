"""What users and Katib's clients are shown of an Experiment. Pure."""

from gangline.dialects.katib import Experiment, experiment_of
from gangline.dialects.katib.space import assigned
from gangline.dialects.katib.status import (
    STATUS_FIELDS,
    experiment_to_status,
    suggestion_to_object,
    train_jobs_to_objects,
    trials_to_objects,
)
from gangline.kinds.experiment.trials import KnownTrial, counting_value, known_trials, parsed
from gangline.kinds.kind import Owned, Published
from gangline.model import Job
from gangline.model.kinds.experiment import ExperimentRecord, ExperimentTrial, ExperimentView, TrialState
from gangline.model.kinds.sweep import TRIAL_LABEL as NUMBER_LABEL
from gangline.model.kinds.sweep import Goal


def view_experiment(record: ExperimentRecord, owned: Owned) -> ExperimentView:
    """Show an Experiment with its trials."""
    experiment, status = parsed(record), record.status
    shown = tuple(_shown(experiment, each) for each in known_trials(record, experiment, owned))
    scored = [each for each in shown if each.value is not None and each.state is not TrialState.FAILED]
    sign = 1.0 if experiment.objective.goal is Goal.MAXIMIZE else -1.0
    best = max(scored, key=lambda each: sign * (each.value or 0.0), default=None)
    return ExperimentView(
        id=record.id,
        spec=record.spec,
        state=record.state,
        created_at=record.created_at,
        version=record.version,
        trials=shown,
        best=None if best is None else best.name,
        running_at=status.running_at,
        restarted_at=status.restarted_at,
        finished_at=status.search.finished_at,
        end=status.search.end,
        note=experiment.algorithm.note,
    )


def _shown(experiment: Experiment, trial: KnownTrial) -> ExperimentTrial:
    job, seen = trial.job, trial.observation
    metrics = seen.metrics if seen is not None else ()
    return ExperimentTrial(
        name=job.name,
        number=trial.assignment.number,
        values=assigned(experiment.space, trial.assignment.values),
        state=trial.state,
        job=job.name,
        job_id=job.id,
        reason=job.reason,
        message=job.message,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=seen.at if seen is not None else None,
        metrics=metrics,
        value=counting_value(experiment, metrics),
    )


def progress_text(view: ExperimentView) -> str:
    """Write how many trials have ended, of how many there will be or are so far."""
    most = experiment_of(view.spec.manifest_json).max_trials
    return f"{sum(each.state.ended for each in view.trials)}/{max(most or 0, len(view.trials))}"


def best_text(view: ExperimentView) -> str | None:
    """Write the best trial so far."""
    found = next((each for each in view.trials if each.name == view.best), None)
    if found is None or found.value is None:
        return None
    metric = experiment_of(view.spec.manifest_json).objective.metric
    return f"{metric} {found.value:.6g} with {' '.join(f'{name}={value}' for name, value in found.values.items())}"


def published(record: ExperimentRecord, owned: Owned) -> Published:
    """Return what Katib's clients look at on a cluster."""
    view = view_experiment(record, owned)
    # Clients look for the TrainJob of every Trial that they see.
    jobs = train_jobs_to_objects(view, record.status.template_json)
    children = (suggestion_to_object(view), *jobs, *trials_to_objects(view))
    return Published(status={**dict.fromkeys(STATUS_FIELDS), **experiment_to_status(view)}, children=children)


def is_news(record: ExperimentRecord, job: Job) -> bool:
    """Whether nothing was noted yet of a trial that has ended."""
    label = job.spec.labels.get(NUMBER_LABEL, "")
    return label.isdigit() and int(label) not in {each.trial for each in record.status.observations}
