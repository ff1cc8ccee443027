"""A trial as a job: the template with its values, its labels, and what tells a collector where to read."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from gangline.dialects import document, kubeflow, native
from gangline.dialects.katib.batch_job import job_from_batch
from gangline.dialects.katib.collectors import CollectorKind
from gangline.dialects.katib.conditions import holds
from gangline.dialects.katib.experiment import Experiment
from gangline.dialects.katib.space import assigned
from gangline.dialects.katib.templates import BATCH_VERSION, RUNTIME_FIELD
from gangline.dialects.kubeflow import KINDS, job_to_status, kind_of
from gangline.dialects.trainer import API_VERSION as TRAINER_VERSION
from gangline.dialects.trainer import TRAIN_JOB, read_train_job, train_job_to_job
from gangline.dialects.trainer.job import LAUNCHER, NODE
from gangline.dialects.translation import Translation
from gangline.errors import InvalidInputError
from gangline.model import Clean, Job, JobSpec, Phase
from gangline.model.jobs.placement import AS_WRITTEN, POD_SECURITY
from gangline.model.kinds.experiment import COLLECTOR_ANNOTATION, COLLECTOR_VARIABLE, COPY_VARIABLE, METRICS_VOLUME
from gangline.model.kinds.sweep import PARAMETERS_VARIABLE
from gangline.model.kinds.sweep import TRIAL_LABEL as NUMBER_LABEL
from gangline.model.kinds.train_job import TrainJobSpec

EXPERIMENT_LABEL = "katib.kubeflow.org/experiment"
TRIAL_LABEL = "katib.kubeflow.org/trial"
NAME_VARIABLE = "KATIB_TRIAL_NAME"
_AS_WRITTEN = {POD_SECURITY: AS_WRITTEN}
PARENT_VARIABLE = "GANGLINE_PARENT_TRIAL"
_CHECKPOINTS, _CHECKPOINT_VOLUME, _PARENT_FOLDER = "suggestion_trial_dir", "katib-checkpoints", "/katib-parent"
_SUFFIX_DIGITS = 8
_ANY_RUNTIME: dict[str, Any] = {
    "spec": {
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": NODE,
                        "template": {
                            "spec": {
                                "template": {
                                    "spec": {"containers": [{"name": NODE, "image": "any", "command": ["true"]}]}
                                }
                            }
                        },
                    }
                ]
            }
        }
    }
}
"""What a TrainJob is checked with before its own runtime is known."""


class Verdict(StrEnum):
    """What the conditions of a template say of a trial's job."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


def trial_name(experiment: str, record_id: str, number: int) -> str:
    """Return the name of a trial: no other Experiment has it, in whichever namespace, and it is always the same."""
    digest = hashlib.sha256(f"{record_id}/{number}".encode()).hexdigest()
    return f"{experiment}-{digest[:_SUFFIX_DIGITS]}"


def trial_to_job(
    experiment: Experiment,
    chosen: Mapping[str, str],
    *,
    number: int,
    name: str,
    env: Mapping[str, str],
    parent: str | None = None,
) -> Translation:
    """Return the job of a trial, given what the sweep chose; raises InvalidInputError for one that is not a job.

    ``parent`` names the trial whose checkpoint it goes on from.
    """
    values = assigned(experiment.space, chosen)
    made = experiment.template.rendered(values, name=name, namespace=experiment.tenant)
    labels = {EXPERIMENT_LABEL: experiment.name, TRIAL_LABEL: name, NUMBER_LABEL: str(number)}
    metadata = made["metadata"]
    made["metadata"] = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
    variables = {
        **env,
        NAME_VARIABLE: name,
        PARAMETERS_VARIABLE: json.dumps(dict(chosen)),
    }
    order = experiment.collector.order(experiment.objective.metrics)
    if order is not None:
        variables[COLLECTOR_VARIABLE] = order
    if parent is not None:
        variables[PARENT_VARIABLE] = parent
    read = _READERS.get((made.get("apiVersion", ""), made.get("kind", "")), _kubeflow_job)
    return read(experiment, made, variables)


def stand_in(experiment: Experiment, env: Mapping[str, str] | None = None) -> Translation:
    """Return the job of a trial in the middle of the space: what is wrong with it is wrong with all."""
    name = trial_name(experiment.name, "", 0)
    try:
        return trial_to_job(experiment, _middle(experiment), number=0, name=name, env=env or {})
    except InvalidInputError as error:
        raise InvalidInputError(
            error.problem,
            field=f"spec.trialTemplate.trialSpec.{error.field}" if error.field else "spec.trialTemplate.trialSpec",
            expected=error.expected,
            suggestion=error.suggestion,
        ) from error


def _middle(experiment: Experiment) -> dict[str, str]:
    return {each.name: each.at(0.5) for each in (one.parameter(at) for at, one in enumerate(experiment.space))}


def train_job_of(experiment: Experiment) -> TrainJobSpec | None:
    """Return the TrainJob that a trial in the middle of the space is; None where trials are of another kind."""
    values = assigned(experiment.space, _middle(experiment))
    made = experiment.template.rendered(values, name=trial_name(experiment.name, "", 0), namespace=experiment.tenant)
    return None if made.get("kind") != TRAIN_JOB else _read_train_job(made)


def _read_train_job(made: Mapping[str, Any]) -> TrainJobSpec:
    return read_train_job(document.plain({name: part for name, part in made.items() if name != RUNTIME_FIELD}))


def _batch_job(experiment: Experiment, made: dict[str, Any], variables: Mapping[str, str]) -> Translation:
    pod = (made.get("spec") or {}).get("template") or {}
    _prepare(pod, experiment, variables)
    translation = job_from_batch(document.plain(made), experiment.template.container)
    clean = Clean.NONE if experiment.template.retain else Clean.ALL
    policy = replace(translation.spec.policy, clean=clean)
    return replace(translation, spec=replace(translation.spec, policy=policy))


def _native_job(experiment: Experiment, made: dict[str, Any], variables: Mapping[str, str]) -> Translation:
    metadata = {name: value for name, value in made["metadata"].items() if name != "namespace"}
    spec = native.job_from_value(
        document.plain({**made, "metadata": {**metadata, "tenant": experiment.tenant}}), sizes={}
    )
    roles = tuple(replace(role, env={**variables, **role.env}) for role in spec.roles)
    return Translation(spec=replace(spec, roles=roles))


def _train_job(experiment: Experiment, made: dict[str, Any], variables: Mapping[str, str]) -> Translation:
    """Put the variables into the runtime, which has the pods: what the TrainJob says itself comes on top."""
    runtime = json.loads(json.dumps(made.get(RUNTIME_FIELD) or _ANY_RUNTIME))
    jobs = {each.get("name"): each for each in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
    for name in (LAUNCHER, NODE):
        if name in jobs:
            inner = jobs[name].setdefault("template", {}).setdefault("spec", {}).setdefault("template", {})
            _prepare(inner, experiment, variables, container=NODE)
            # Of MPI's pods the launcher speaks for all.
            variables = {key: value for key, value in variables.items() if key != COLLECTOR_VARIABLE}
    return train_job_to_job(_read_train_job(made), json.dumps(runtime))


def _kubeflow_job(experiment: Experiment, made: dict[str, Any], variables: Mapping[str, str]) -> Translation:
    kind = KINDS[made["kind"]]
    replicas = (made.get("spec") or {}).get(kind.replicas_field) or {}
    primary = _primary(experiment, kind, replicas)
    for name, replica in replicas.items():
        mine = variables
        if name not in primary:
            mine = {key: value for key, value in variables.items() if key != COLLECTOR_VARIABLE}
        _prepare(replica.get("template") or {}, experiment, mine, container=kind.container)
    return kubeflow.job_from_value(document.plain(made))


def _primary(experiment: Experiment, kind: kubeflow.Kind, replicas: Mapping[str, Any]) -> set[str]:
    """Return the replica types whose numbers count: by ``primaryPodLabels``, else the one that speaks for the job."""
    wanted = experiment.template.pod_labels.get(kubeflow.REPLICA_TYPE_LABEL)
    if wanted is not None:
        return {name for name in replicas if name.casefold() == wanted.casefold()}
    leads = [name for name in replicas if name.casefold() in ("chief", "master", "launcher")]
    return set(leads[:1]) or {name for name in replicas if name.casefold() == "worker"}


def _prepare(
    template: dict[str, Any], experiment: Experiment, variables: Mapping[str, str], *, container: str | None = None
) -> None:
    """Give the primary container of a pod template its variables and the directory that a collector reads."""
    pod = template.setdefault("spec", {})
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        EXPERIMENT_LABEL: experiment.name,
        TRIAL_LABEL: variables[NAME_VARIABLE],
    }
    metadata["annotations"] = {**_AS_WRITTEN, **(metadata.get("annotations") or {})}
    if COLLECTOR_VARIABLE in variables:
        metadata["annotations"][COLLECTOR_ANNOTATION] = variables[COLLECTOR_VARIABLE]
    if experiment.collector.kind is CollectorKind.PUSH:
        # What pushes reads its namespace from a file of its account; on a cluster a collector listens beside it.
        pod.setdefault("automountServiceAccountToken", True)
        metadata["annotations"][COLLECTOR_ANNOTATION] = json.dumps({"kind": CollectorKind.PUSH.value})
    for each in _primary_containers(pod, (experiment.template.container, container)):
        _add_variables(each, variables)
        if folder := experiment.algorithm.given.get(_CHECKPOINTS, "").rstrip("/"):
            _add_checkpoints(pod, each, experiment.name, folder, variables)
        if COLLECTOR_VARIABLE in variables and experiment.collector.directory is not None:
            _add_directory(pod, each, experiment.collector.directory)


def _primary_containers(pod: Mapping[str, Any], names: tuple[str | None, ...]) -> Iterator[dict[str, Any]]:
    containers = [each for each in pod.get("containers") or () if isinstance(each, dict)]
    found = [each for each in containers if each.get("name") in names]
    yield from found[:1] or containers[:1]


def _add_variables(container: dict[str, Any], variables: Mapping[str, str]) -> None:
    given = [each for each in container.get("env") or () if isinstance(each, dict)]
    taken = {each.get("name") for each in given}
    # What a kubelet would take for a reference is not one.
    ours = [{"name": key, "value": value.replace("$(", "$$(")} for key, value in variables.items() if key not in taken]
    container["env"] = [*given, *ours]


def _add_directory(pod: dict[str, Any], container: dict[str, Any], directory: str) -> None:
    """Mount an empty volume where the trial writes, unless its author has one there."""
    mounts = [each for each in container.get("volumeMounts") or () if isinstance(each, dict)]
    if any(f"{directory}/".startswith(f"{str(each.get('mountPath')).rstrip('/')}/") for each in mounts):
        return
    # In a folder of its own name, so that where nothing can be mounted the folder above is known, too.
    name = directory.rpartition("/")[2] or "metrics"
    container["volumeMounts"] = [*mounts, {"name": METRICS_VOLUME, "mountPath": directory, "subPath": name}]
    volumes = [each for each in pod.get("volumes") or () if each.get("name") != METRICS_VOLUME]
    pod["volumes"] = [*volumes, {"name": METRICS_VOLUME, "emptyDir": {}}]


def _add_checkpoints(
    pod: dict[str, Any], container: dict[str, Any], experiment: str, folder: str, variables: Mapping[str, str]
) -> None:
    """Mount the trial's own folder of a volume that all share, with a copy of what its parent had saved in it."""
    own = {"name": _CHECKPOINT_VOLUME, "mountPath": folder, "subPath": variables[NAME_VARIABLE]}
    mounts = [each for each in container.get("volumeMounts") or () if each.get("mountPath", "").rstrip("/") != folder]
    container["volumeMounts"] = [*mounts, own]
    claim = {"claimName": f"{experiment}-checkpoints"}
    pod["volumes"] = [*(pod.get("volumes") or ()), {"name": _CHECKPOINT_VOLUME, "persistentVolumeClaim": claim}]
    if (parent := variables.get(PARENT_VARIABLE)) is None:
        return
    theirs = {"name": _CHECKPOINT_VOLUME, "mountPath": _PARENT_FOLDER, "subPath": parent, "readOnly": True}
    copying = {
        "name": "gangline-checkpoint",
        "image": container.get("image"),
        "command": ["sh", "-c", f'cp -a {_PARENT_FOLDER}/. "{folder}/"'],
        "volumeMounts": [own, theirs],
    }
    pod["initContainers"] = [*(pod.get("initContainers") or ()), copying]
    container["volumeMounts"].append(theirs)
    container["env"].append({"name": COPY_VARIABLE, "value": f"{_PARENT_FOLDER}:{folder}"})


_READERS = {
    (BATCH_VERSION, "Job"): _batch_job,
    (native.API_VERSION, "Job"): _native_job,
    (TRAINER_VERSION, TRAIN_JOB): _train_job,
}


def values_of(job: Job) -> dict[str, str] | None:
    """Return what the sweep chose for the trial of this job; None if it is not a trial."""
    texts = (role.env.get(PARAMETERS_VARIABLE) for role in job.spec.roles)
    text = next((each for each in texts if each), None)
    try:
        values = json.loads((text or "").replace("$$(", "$("))
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def verdict_of(experiment: Experiment, job: Job) -> Verdict:
    """Say by the conditions of the template what became of a trial; a job that has ended has one or the other."""
    status = job_document(job)
    if holds(experiment.template.failure, status):
        return Verdict.FAILED
    if holds(experiment.template.success, status):
        return Verdict.SUCCEEDED
    return Verdict.FAILED if job.finished else Verdict.ACTIVE


def job_document(job: Job) -> dict[str, Any]:
    """Return the job as an object that conditions can look into."""
    kind = kind_of(job.spec)
    if kind is not None:
        return {"kind": kind.name, "status": job_to_status(job, kind.name)}
    conditions = []
    if job.finished:
        word = "Complete" if job.phase is Phase.COMPLETED else "Failed"
        conditions.append({"type": word, "status": "True", "reason": job.reason, "message": job.message})
    return {
        "kind": "Job",
        "status": {
            "phase": job.phase.value,
            "conditions": conditions,
            "succeeded": int(job.phase is Phase.COMPLETED),
            "failed": int(job.phase in (Phase.FAILED, Phase.CANCELLED)),
            "active": int(not job.finished and job.attempt > 0),
        },
    }


def is_trial_spec(spec: JobSpec) -> bool:
    """Whether a job is a trial of an Experiment."""
    return TRIAL_LABEL in spec.labels
