"""Experiments, Trials and Suggestions as objects, told in Katib's words. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gangline.dialects.katib.experiment import API_VERSION, KIND, Experiment, experiment_of, with_defaults
from gangline.dialects.katib.trial import EXPERIMENT_LABEL, TRIAL_LABEL
from gangline.dialects.kubeflow import time_text
from gangline.dialects.trainer import API_VERSION as TRAINER_VERSION
from gangline.dialects.trainer import TRAIN_JOB
from gangline.dialects.trainer.job import NODE
from gangline.dialects.trainer.status import train_job_to_status
from gangline.model import Timestamp
from gangline.model.kinds.experiment import ExperimentTrial, ExperimentView, MetricSummary, TrialState
from gangline.model.kinds.sweep import EndReason
from gangline.model.kinds.train_job import TrainJobEnd, TrainJobPart, TrainJobStatus

Plain = dict[str, Any]

UNAVAILABLE = "unavailable"
_LISTS = {
    TrialState.RUNNING: ("runningTrialList", "trialsRunning"),
    TrialState.PENDING: ("pendingTrialList", "trialsPending"),
    TrialState.FAILED: ("failedTrialList", "trialsFailed"),
    TrialState.SUCCEEDED: ("succeededTrialList", "trialsSucceeded"),
    TrialState.KILLED: ("killedTrialList", "trialsKilled"),
    TrialState.EARLY_STOPPED: ("earlyStoppedTrialList", "trialsEarlyStopped"),
    TrialState.METRICS_UNAVAILABLE: ("metricsUnavailableTrialList", "trialMetricsUnavailable"),
}
STATUS_FIELDS = (
    *(name for names in _LISTS.values() for name in names),
    "trials",
    "completionTime",
    "currentOptimalTrial",
)
"""What a status may have and need not: whoever changes one says which are gone."""
_ENDS = {
    EndReason.TARGET_REACHED: ("ExperimentGoalReached", "Objective goal has reached"),
    EndReason.TRIALS_USED: ("ExperimentMaxTrialsReached", "max trial count has reached"),
    EndReason.EXHAUSTED: ("ExperimentSuggestionEndReached", "suggestion service has reached the end"),
    EndReason.TOO_MANY_FAILURES: ("ExperimentFailed", "max failed count has reached"),
}
_MESSAGES = {
    TrialState.SUCCEEDED: "Trial has succeeded",
    TrialState.FAILED: "Trial has failed",
    TrialState.KILLED: "Trial is killed",
    TrialState.EARLY_STOPPED: "Trial is early stopped",
    TrialState.METRICS_UNAVAILABLE: "Metrics are not available",
}


def experiment_to_object(view: ExperimentView) -> Plain:
    """Write the whole Experiment."""
    manifest = json.loads(view.spec.manifest_json)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            **{name: part for name, part in manifest["metadata"].items() if name in ("labels", "annotations")},
            **_identity(view.name, view.spec.tenant, str(view.id), view.created_at, view.version),
        },
        "spec": with_defaults(manifest, experiment_of(view.spec.manifest_json)),
        "status": experiment_to_status(view),
    }


def experiment_to_status(view: ExperimentView) -> Plain:
    """Write how an Experiment is doing."""
    status: Plain = {"startTime": time_text(view.created_at), "conditions": _experiment_conditions(view)}
    newest = max(_moments(view))
    status["lastReconcileTime"] = time_text(newest)
    if view.settled and view.finished_at is not None:
        status["completionTime"] = time_text(view.finished_at)
    if view.trials:
        status["trials"] = len(view.trials)
    for state, (names, count) in _LISTS.items():
        if mine := [each.name for each in view.trials if each.state is state]:
            status[names], status[count] = mine, len(mine)
    best = next((each for each in view.trials if each.name == view.best), None)
    status["currentOptimalTrial"] = {} if best is None else _optimal(best)
    return status


def _moments(view: ExperimentView) -> list[Timestamp]:
    own = (view.created_at, view.running_at, view.restarted_at, view.finished_at)
    trials = (moment for each in view.trials for moment in (each.created_at, each.started_at, each.finished_at))
    return [moment for moment in (*own, *trials) if moment is not None]


def _optimal(trial: ExperimentTrial) -> Plain:
    return {
        "bestTrialName": trial.name,
        "parameterAssignments": _assignments(trial.values),
        "observation": {"metrics": _metrics(trial.metrics)},
    }


def _experiment_conditions(view: ExperimentView) -> list[Plain]:
    found = [_condition("Created", "ExperimentCreated", "Experiment is created", view.created_at)]
    if view.restarted_at is not None and not view.settled:
        found.append(_condition("Restarting", "ExperimentRestarting", "Experiment is restarted", view.restarted_at))
    if view.running_at is not None:
        message = "Experiment is running" + (f"; {view.note}" if view.note else "")
        running = _condition("Running", "ExperimentRunning", message, view.running_at)
        found.append(running if not view.settled else {**running, "status": "False"})
    if view.settled and view.end is not None and view.finished_at is not None:
        found.append(_end_condition(view, view.finished_at))
    return found


def _end_condition(view: ExperimentView, at: Timestamp) -> Plain:
    assert view.end is not None
    reason, words = _ENDS.get(view.end.reason, ("ExperimentFailed", "the search cannot go on"))
    verb = "failed" if view.end.failed else "succeeded"
    return _condition(view.state, reason, f"Experiment has {verb} because {words}: {view.end.message}", at)


def refused_status(message: str, at: Timestamp) -> Plain:
    """Say in an Experiment's conditions why it cannot be run."""
    created = _condition("Created", "ExperimentCreated", "Experiment is created", at)
    return {"conditions": [created, _condition("Failed", "ExperimentFailed", message, at)]}


def trials_to_objects(view: ExperimentView) -> list[Plain]:
    """Write every Trial of an Experiment."""
    manifest, experiment = json.loads(view.spec.manifest_json), experiment_of(view.spec.manifest_json)
    spec = with_defaults(manifest, experiment)
    return [_trial(view, experiment, spec, each) for each in view.trials]


def _trial(view: ExperimentView, experiment: Experiment, spec: Mapping[str, Any], trial: ExperimentTrial) -> Plain:
    template = spec["trialTemplate"]
    made = experiment.template.rendered(trial.values, name=trial.name, namespace=view.spec.tenant)
    metadata = _identity(trial.name, view.spec.tenant, str(trial.job_id), trial.created_at, view.version)
    body: Plain = {
        "objective": spec["objective"],
        "parameterAssignments": _assignments(trial.values),
        "runSpec": made,
        "metricsCollector": spec["metricsCollectorSpec"],
        "successCondition": template["successCondition"],
        "failureCondition": template["failureCondition"],
        "primaryContainerName": experiment.template.container,
    }
    if experiment.template.pod_labels:
        body["primaryPodLabels"] = dict(experiment.template.pod_labels)
    if experiment.template.retain:
        body["retainRun"] = True
    return {
        "apiVersion": API_VERSION,
        "kind": "Trial",
        "metadata": {
            **metadata,
            "labels": {EXPERIMENT_LABEL: view.name},
            "ownerReferences": [owner_to_plain(view.name, str(view.id))],
        },
        "spec": body,
        "status": _trial_status(trial),
    }


def _trial_status(trial: ExperimentTrial) -> Plain:
    conditions = [_condition("Created", "TrialCreated", "Trial is created", trial.created_at)]
    if trial.started_at is not None:
        running = _condition("Running", "TrialRunning", "Trial is running", trial.started_at)
        conditions.append(running if not trial.state.ended else {**running, "status": "False"})
    if trial.state.ended and trial.finished_at is not None:
        said = ". ".join(filter(None, (_MESSAGES[trial.state], trial.message and f"Job message: {trial.message}")))
        conditions.append(_condition(trial.state.value, f"Trial{trial.state.value}", said, trial.finished_at))
    status: Plain = {"startTime": time_text(trial.created_at), "conditions": conditions}
    if trial.state.ended and trial.finished_at is not None:
        status["completionTime"] = time_text(trial.finished_at)
        status["observation"] = {"metrics": _metrics(trial.metrics)}
    return status


def train_jobs_to_objects(view: ExperimentView, template_json: str = "") -> list[Plain]:
    """Write the TrainJob of every trial, if trials are TrainJobs: Trainer's clients look for the name of the trial."""
    template, found = experiment_of(view.spec.manifest_json, template_json).template, list[Plain]()
    for trial in view.trials:
        made = template.rendered(trial.values, name=trial.name, namespace=view.spec.tenant)
        if made.get("kind") != TRAIN_JOB:
            return []
        labels = {**(made["metadata"].get("labels") or {}), EXPERIMENT_LABEL: view.name, TRIAL_LABEL: trial.name}
        metadata = {
            **_identity(trial.name, view.spec.tenant, str(trial.job_id), trial.created_at, view.version),
            "labels": labels,
            "ownerReferences": [owner_to_plain(view.name, str(view.id))],
        }
        status = train_job_to_status(_train_job_status(trial))
        body = {"apiVersion": TRAINER_VERSION, "kind": TRAIN_JOB, "metadata": metadata, "spec": made["spec"]}
        found.append({**body, "status": status})
    return found


def _train_job_status(trial: ExperimentTrial) -> TrainJobStatus:
    if not trial.state.ended:
        state = "ready" if trial.state is TrialState.RUNNING else "active"
        return TrainJobStatus(begun=True, parts=(TrainJobPart(name=NODE, state=state),))
    complete = trial.state in (TrialState.SUCCEEDED, TrialState.METRICS_UNAVAILABLE)
    end = TrainJobEnd(
        complete=complete,
        reason="AllJobsCompleted" if complete else "FailedJobs",
        message=trial.message or _MESSAGES[trial.state],
        at=trial.finished_at or trial.created_at,
    )
    parts = (TrainJobPart(name=NODE, state="succeeded" if complete else "failed"),)
    return TrainJobStatus(begun=True, parts=parts, end=end)


def suggestion_to_object(view: ExperimentView) -> Plain:
    """Write the Suggestion of an Experiment: what was chosen for its trials."""
    spec = json.loads(view.spec.manifest_json)["spec"]
    experiment = experiment_of(view.spec.manifest_json)
    body: Plain = {
        "algorithm": spec["algorithm"],
        "requests": len(view.trials),
        "resumePolicy": experiment.resume.value,
    }
    if "earlyStopping" in spec:
        body["earlyStopping"] = spec["earlyStopping"]
    at = view.running_at or view.created_at
    conditions = [_condition("Created", "SuggestionCreated", "Suggestion is created", view.created_at)]
    ready = "Suggestion is part of the service" + (f"; {view.note}" if view.note else "")
    conditions.append(_condition("DeploymentReady", "DeploymentReady", ready, at))
    if view.end is not None and view.end.reason is EndReason.SAMPLER_FAILED:
        conditions.append(_condition("Failed", "SuggestionFailed", view.end.message, view.finished_at or at))
    elif view.settled:
        conditions.append(
            _condition("Succeeded", "SuggestionSucceeded", "Suggestion is succeeded", view.finished_at or at)
        )
    else:
        conditions.append(_condition("Running", "SuggestionRunning", "Suggestion is running", at))
    status: Plain = {
        "startTime": time_text(view.created_at),
        "suggestionCount": len(view.trials),
        "suggestions": [{"name": each.name, "parameterAssignments": _assignments(each.values)} for each in view.trials],
        "conditions": conditions,
    }
    if view.settled and view.finished_at is not None:
        status["completionTime"] = time_text(view.finished_at)
    metadata = _identity(view.name, view.spec.tenant, f"{view.id}-suggestion", view.created_at, view.version)
    return {
        "apiVersion": API_VERSION,
        "kind": "Suggestion",
        "metadata": {**metadata, "ownerReferences": [owner_to_plain(view.name, str(view.id))]},
        "spec": body,
        "status": status,
    }


def owner_to_plain(name: str, uid: str) -> Plain:
    """Point to the Experiment that something belongs to."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _identity(name: str, namespace: str, uid: str, created_at: Timestamp, version: int) -> Plain:
    return {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(max(version, 1)),
        "generation": 1,
        "creationTimestamp": time_text(created_at),
    }


def _assignments(values: Mapping[str, str]) -> list[Plain]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _metrics(metrics: Iterable[MetricSummary]) -> list[Plain]:
    return [
        {"name": each.name, "latest": _text(each.latest), "min": _text(each.least), "max": _text(each.most)}
        for each in metrics
    ]


def _text(value: float | None) -> str:
    return UNAVAILABLE if value is None else repr(value)


def _condition(type_: str, reason: str, message: str, at: Timestamp) -> Plain:
    return {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastUpdateTime": time_text(at),
        "lastTransitionTime": time_text(at),
    }
