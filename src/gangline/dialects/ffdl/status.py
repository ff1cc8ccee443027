"""Jobs in the words of FfDL's interface: statuses, error codes, models, lines and metrics. Pure."""

from datetime import UTC, datetime
from typing import Any

from gangline.dialects.ffdl.manifest import command_of, framework_of
from gangline.model import Job, LogLine, Metric, Phase, Timestamp

Plain = dict[str, Any]

NAME_LABEL = "ffdl"
"""The label of jobs that came over FfDL's interface; its value is the name in the manifest."""

STATUSES = {
    Phase.QUEUED: "QUEUED",
    Phase.RESUMED: "QUEUED",
    Phase.RESTARTING: "QUEUED",
    Phase.STARTING: "PENDING",
    Phase.DOWNLOADING: "DOWNLOADING",
    Phase.PROCESSING: "PROCESSING",
    Phase.HALTING: "STORING",
    Phase.STORING: "STORING",
    Phase.COMPLETED: "COMPLETED",
    Phase.FAILED: "FAILED",
    Phase.CANCELLED: "HALTED",
    Phase.HALTED: "HALTED",
}
"""Every phase has the status that FfDL would show. It has no word for one that was cancelled but HALTED."""

_BEGINNINGS = {
    "download_started": Phase.DOWNLOADING,
    "process_started": Phase.PROCESSING,
    "store_started": Phase.STORING,
}
"""The times that FfDL keeps besides."""
_ERRORS = {Phase.DOWNLOADING: "S302", Phase.STORING: "S303", Phase.STARTING: "S101"}
_USERS = frozenset({"ReplicaFailed", "RestartLimitReached", "DeadlineExceeded"})


def error_code(job: Job) -> str:
    """Return FfDL's code for why a job failed: S for the platform's fault, C for the user's; empty if it did not."""
    if job.phase is not Phase.FAILED:
        return ""
    before = next((entry.phase for entry in reversed(job.history) if entry.phase is not Phase.FAILED), Phase.QUEUED)
    if before in (Phase.DOWNLOADING, Phase.STORING):
        return _ERRORS[before]
    return "C201" if job.reason in _USERS else _ERRORS.get(before, "S104")


def model_to_plain(job: Job) -> Plain:
    """Return what FfDL calls a model: what was asked for, and how far its training is."""
    learner = job.spec.roles[-1]
    name, version = framework_of(job.spec.image or "")
    return {
        "model_id": job.id,
        "location": f"/v1/models/{job.id}",
        "name": job.spec.labels.get(NAME_LABEL, job.name),
        "framework": {"name": name, "version": version},
        "training": {
            "command": command_of(job.spec),
            "cpus": learner.resources.cpu_millis / 1000,
            "gpus": learner.resources.gpu_millis / 1000,
            "memory": float(learner.resources.memory_mib),
            "memory_unit": "MiB",
            "learners": learner.replicas,
            "input_data": [each.source for each in job.spec.inputs],
            "output_data": [each.target for each in job.spec.outputs],
            "training_status": status_to_plain(job),
        },
    }


def status_to_plain(job: Job) -> Plain:
    """Return how far a training is."""
    status = {
        "status": STATUSES[job.phase],
        "status_description": str(job.phase),
        "status_message": job.message or job.reason,
        "error_code": error_code(job),
        "submitted": time_text(job.created_at),
        "completed": None if job.finished_at is None else time_text(job.finished_at),
        **{name: time_text(at) for name, phase in _BEGINNINGS.items() if (at := _entered(job, phase)) is not None},
    }
    return {name: value for name, value in status.items() if value}


def _entered(job: Job, phase: Phase) -> Timestamp | None:
    """Return when a job came into a phase last."""
    return next((entry.at for entry in reversed(job.history) if entry.phase is phase), None)


def line_to_plain(job: Job, line: LogLine, number: int) -> Plain:
    """Return a line of output."""
    return {"meta": _meta(job, line.at, number), "line": line.text}


def metric_to_plain(job: Job, metric: Metric, number: int) -> Plain:
    """Return something that a training reported."""
    times = {} if metric.step is None else {"iteration": {"type": "INT", "value": str(metric.step)}}
    return {
        "meta": _meta(job, metric.at, number),
        "grouplabel": str(metric.replica),
        "etimes": times,
        "values": {metric.name: {"type": "FLOAT", "value": repr(metric.value)}},
    }


def time_text(at: Timestamp) -> str:
    """Write a time to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _meta(job: Job, at: Timestamp, number: int) -> Plain:
    return {"training_id": job.id, "time": str(int(at * 1000)), "rindex": str(number)}
