"""The kinds of Kubeflow Trainer: TrainJob, run as one job, and the runtimes that it names."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gangline.dialects.trainer import (
    API_VERSION,
    CLUSTER_RUNTIME,
    RUNTIME,
    TRAIN_JOB,
    read_cluster_runtime,
    read_runtime,
    read_train_job,
    runtime_of,
    suspended,
    train_job_to_job,
)
from gangline.dialects.trainer.runtimes import SHIPPED
from gangline.dialects.trainer.status import refused_status, train_job_to_status
from gangline.dialects.value import Value
from gangline.errors import InvalidInputError
from gangline.kinds.kind import Column, FileFormat, Kind, NewJob, Owned, Plan, Published, Reader, Scope
from gangline.model import Job, Metric, Phase, ReplicaState, Resources, Timestamp
from gangline.model.jobs.metric import CHECKPOINT_METRIC
from gangline.model.kinds.train_job import (
    ClusterTrainingRuntime,
    ClusterTrainingRuntimeSpec,
    TrainerProgress,
    TrainingRuntime,
    TrainingRuntimeSpec,
    TrainJob,
    TrainJobEnd,
    TrainJobPart,
    TrainJobSpec,
    TrainJobStatus,
)
from gangline.model.record import NoStatus, Record

_LOOK_SECONDS = 5.0
"""How often reported numbers are read: nobody announces them."""
_ASKED_SECONDS = 30.0
"""How long a request to rest may be under way."""
_PROGRESS = "progress"
_SCHEMA: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_MUTABLE = ("suspend",)
_RESTING = frozenset({Phase.HALTING, Phase.HALTED})
_FAILED = frozenset({ReplicaState.FAILED, ReplicaState.LOST})


def plan_train_job(record: TrainJob, owned: Owned, now: Timestamp) -> Plan[TrainJobStatus]:
    """Make the job of a TrainJob, let it rest and go on, and say how it is doing."""
    status = record.status
    if status.end is not None:
        return Plan(status=status)
    job = next(iter(owned.jobs), None)
    if job is None:
        return _ended(status, "JobDeleted", "its job was deleted", now) if status.begun else _begin(record, owned, now)
    status = replace(status, begun=True, waits_for="", parts=_parts(job), progress=_progress(job, owned.metrics, now))
    if job.finished:
        return Plan(status=replace(status, end=_end(job, now), suspended_at=None))
    resting = job.phase in _RESTING and not job.requeue
    halt, resume = tuple[Any, ...](), tuple[Any, ...]()
    if suspended(record.spec):
        # Noted first, then asked for: a job that rests without it would never be resumed.
        halt = (job.id,) if status.suspended_at is not None and not resting else ()
        status = replace(status, suspended_at=status.suspended_at or now)
    elif not record.status.begun:
        status = replace(status, suspended_at=None)  # its job was made, and that could not be noted
    elif status.suspended_at is not None:
        # What its user halted by hand rests until they resume it; this one rests because of its spec.
        resume = (job.id,) if job.phase is Phase.HALTED and resting else ()
        if not resting and _has_rested(job, status.suspended_at, now):
            status = replace(status, suspended_at=None)
    # Until it rests or goes on as its spec says, it is asked again: a request may be lost.
    pending = not resting if suspended(record.spec) else status.suspended_at is not None
    watched = job.phase is Phase.PROCESSING or pending
    again = Timestamp(now + _LOOK_SECONDS) if watched else None
    return Plan(status=status, halt=halt, resume=resume, again_at=again)


def _has_rested(job: Job, since: Timestamp, now: Timestamp) -> bool:
    """Whether a job that does not rest has done so, as it was asked to; until then the request may be on its way."""
    rested = any(entry.phase in _RESTING and entry.at >= since for entry in job.history)
    return rested or now - since > _ASKED_SECONDS


def _begin(record: TrainJob, owned: Owned, now: Timestamp) -> Plan[TrainJobStatus]:
    status = record.status
    if suspended(record.spec):
        return Plan(status=replace(status, suspended_at=status.suspended_at or now))
    runtime = find_runtime(record.spec, owned.related)
    if runtime is None:
        kind, name = runtime_of(record.spec)
        waits = f"there is no {kind} '{name}'"
        return Plan(status=replace(status, waits_for=waits), again_at=Timestamp(now + _LOOK_SECONDS))
    try:
        job = train_job_to_job(record.spec, runtime.spec.manifest_json).spec
    except InvalidInputError as error:  # a runtime that was changed since, or an object of a cluster
        return _ended(status, "TrainJobResourcesCreationFailed", str(error), now)
    made = replace(status, begun=True, waits_for="", suspended_at=None)
    return Plan(status=made, create=(NewJob(record.job_id(0), job),))


def find_runtime(spec: TrainJobSpec, records: Sequence[Record[Any, Any]]) -> Record[Any, Any] | None:
    """Return the runtime that a TrainJob names, among those of everybody and of its own tenant."""
    kind, name = runtime_of(spec)
    wanted = ClusterTrainingRuntimeSpec if kind == CLUSTER_RUNTIME else TrainingRuntimeSpec
    return next(
        (
            each
            for each in records
            if isinstance(each.spec, wanted) and each.name == name and each.tenant in (None, spec.tenant)
        ),
        None,
    )


def _ended(status: TrainJobStatus, reason: str, message: str, now: Timestamp) -> Plan[TrainJobStatus]:
    end = TrainJobEnd(complete=False, reason=reason, message=message, at=now)
    return Plan(status=replace(status, end=end, suspended_at=None))


def _end(job: Job, now: Timestamp) -> TrainJobEnd:
    at = job.finished_at or now
    if job.phase is Phase.COMPLETED:
        return TrainJobEnd(complete=True, reason="AllJobsCompleted", message="the TrainJob is complete", at=at)
    reason = job.reason if job.reason == "DeadlineExceeded" else "FailedJobs"
    return TrainJobEnd(complete=False, reason=reason, message=job.message or job.reason, at=at)


def _parts(job: Job) -> tuple[TrainJobPart, ...]:
    """Say of every role how its replicas are doing, in Trainer's words."""
    return tuple(TrainJobPart(name=role.name, state=_state(job, role.name)) for role in job.spec.roles)


def _state(job: Job, role: str) -> str:
    if job.finished:
        return "succeeded" if job.phase is Phase.COMPLETED else "failed"
    if job.phase in _RESTING and not job.requeue:
        return "suspended"
    states = [each.state for each in job.replicas if each.id.role == role] if job.holding else []
    if states and all(each is ReplicaState.SUCCEEDED for each in states):
        return "succeeded"
    if any(each in _FAILED for each in states):
        return "failed"
    running = [each in (ReplicaState.RUNNING, ReplicaState.SUCCEEDED) for each in states]
    return "ready" if running and all(running) else "active"


def _progress(job: Job, metrics: Sequence[Metric], now: Timestamp) -> TrainerProgress | None:
    """Sum up what was reported: of every name the newest value, of progress how long the rest should take."""
    newest: dict[str, Metric] = {}
    for each in sorted(metrics, key=lambda each: each.at):
        if each.job_id == job.id and each.name != CHECKPOINT_METRIC:
            newest[each.name] = each
    if not newest:
        return None
    done = newest.pop(_PROGRESS, None)
    share = None if done is None or not math.isfinite(done.value) else min(1.0, max(0.0, done.value))
    remaining = None
    if share and job.started_at is not None and not job.finished and done is not None:
        remaining = round((done.at - job.started_at) * (1 - share) / share)
    values = tuple((name, each.value) for name, each in sorted(newest.items()) if math.isfinite(each.value))
    at = max(each.at for each in (*newest.values(), *([done] if done else [])))
    return TrainerProgress(share=share, remaining_seconds=remaining, metrics=values, at=Timestamp(min(at, now)))


async def check_train_job(before: TrainJob | None, after: TrainJob | None, reader: Reader) -> None:
    """Refuse a TrainJob without a runtime that can run it, and changes of what cannot be changed."""
    if after is None:
        return
    if before is not None:
        old, new = (json.loads(each.spec.manifest_json)["spec"] for each in (before, after))
        for name in sorted({*old, *new} - set(_MUTABLE)):
            if old.get(name) != new.get(name):
                raise InvalidInputError(
                    "it cannot be changed", field=f"spec.{name}", expected="changes of suspend alone"
                )
        return
    runtime = await needed_runtime(after.spec, reader, field="spec.runtimeRef.name")
    train_job_to_job(after.spec, runtime.spec.manifest_json)


async def needed_runtime(spec: TrainJobSpec, reader: Reader, *, field: str) -> Record[Any, Any]:
    """Return the runtime that a TrainJob names; raises InvalidInputError where there is none."""
    kind, name = runtime_of(spec)
    known: list[Record[Any, Any]] = [
        *await reader.records(TRAINING_RUNTIME),
        *await reader.records(CLUSTER_TRAINING_RUNTIME),
    ]
    runtime = find_runtime(spec, known)
    if runtime is None:
        raise InvalidInputError(
            f"there is no {kind} '{name}'",
            field=field,
            expected=f"one of {', '.join(sorted(each.name for each in known if each.tenant in (None, spec.tenant)))}",
        )
    return runtime


def _format(read: Any) -> FileFormat[Any]:
    def reading(value: Value, sizes: Mapping[str, Resources]) -> Any:
        del sizes  # Trainer has none
        return read(value)

    return FileFormat(read=reading, write=lambda spec: json.loads(spec.manifest_json), schema=_SCHEMA)


def _framework(runtime: Record[Any, Any]) -> str:
    policy = json.loads(runtime.spec.manifest_json)["spec"].get("mlPolicy") or {}
    return next((name for name in policy if name != "numNodes"), "plain")


TRAIN_JOBS: Kind[TrainJobSpec, TrainJobStatus, TrainJob] = Kind(
    name="trainjob",
    plural="trainjobs",
    kind_word=TRAIN_JOB,
    api_version=API_VERSION,
    summary="Run Kubeflow Trainer's TrainJobs.",
    description="TrainJob: a training of Kubeflow Trainer's, run by Gangline as one job of the same name.",
    spec=TrainJobSpec,
    status=TrainJobStatus,
    answer=TrainJob,
    editable=True,
    format=_format(read_train_job),
    columns=(
        Column("STATE", lambda job: job.state),
        Column("RUNTIME", lambda job: runtime_of(job.spec)[1]),
        Column(
            "NOTE", lambda job: job.status.waits_for or (job.status.end.message if job.status.end else None), last=True
        ),
    ),
    plan=plan_train_job,
    reads_metrics=lambda spec: True,
    related=lambda spec: (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME),
    check=check_train_job,
    published=lambda record, owned: Published(status={"trainerStatus": None, **train_job_to_status(record.status)}),
    refused=refused_status,
    shown_for="Experiment",
)
TRAINING_RUNTIME: Kind[TrainingRuntimeSpec, NoStatus, TrainingRuntime] = Kind(
    name="trainingruntime",
    plural="trainingruntimes",
    kind_word=RUNTIME,
    api_version=API_VERSION,
    summary="Runtimes for one tenant's TrainJobs.",
    description="TrainingRuntime: how TrainJobs of one namespace are run.",
    spec=TrainingRuntimeSpec,
    answer=TrainingRuntime,
    editable=True,
    format=_format(read_runtime),
    columns=(Column("FRAMEWORK", _framework),),
)
CLUSTER_TRAINING_RUNTIME: Kind[ClusterTrainingRuntimeSpec, NoStatus, ClusterTrainingRuntime] = Kind(
    name="clustertrainingruntime",
    plural="clustertrainingruntimes",
    kind_word=CLUSTER_RUNTIME,
    api_version=API_VERSION,
    scope=Scope.CLUSTER,
    summary="Runtimes for the TrainJobs of all tenants.",
    description="ClusterTrainingRuntime: how TrainJobs of every namespace are run.",
    spec=ClusterTrainingRuntimeSpec,
    answer=ClusterTrainingRuntime,
    editable=True,
    format=_format(read_cluster_runtime),
    columns=(Column("FRAMEWORK", _framework),),
    always=SHIPPED,
)
