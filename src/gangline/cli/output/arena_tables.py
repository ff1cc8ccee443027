"""Jobs in the columns that Arena's users know."""

from collections.abc import Sequence

import click

from gangline.cli import terminal
from gangline.cli.output import formatting, table
from gangline.model import Framework, Job, Phase, ReplicaState, ReplicaStatus, Timestamp

LIST_HEADINGS = ("NAME", "STATUS", "TRAINER", "DURATION", "GPU(Requested)", "GPU(Allocated)", "NODE")
INSTANCE_HEADINGS = ("NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE")

_STATUSES = {
    Phase.COMPLETED: "SUCCEEDED",
    Phase.FAILED: "FAILED",
    Phase.CANCELLED: "FAILED",
    Phase.HALTING: "SUSPENDED",
    Phase.HALTED: "SUSPENDED",
    Phase.DOWNLOADING: "RUNNING",
    Phase.PROCESSING: "RUNNING",
    Phase.STORING: "RUNNING",
}
_INSTANCES = {
    ReplicaState.PENDING: "PENDING",
    ReplicaState.RUNNING: "RUNNING",
    ReplicaState.SUCCEEDED: "SUCCEEDED",
    ReplicaState.BACKING_OFF: "RUNNING",
    ReplicaState.FAILED: "FAILED",
    ReplicaState.LOST: "FAILED",
}
_TRAINERS = {
    Framework.TENSORFLOW: "TFJOB",
    Framework.PYTORCH: "PYTORCHJOB",
    Framework.MPI: "MPIJOB",
    Framework.JAX: "JAXJOB",
    Framework.XGBOOST: "XGBOOSTJOB",
    Framework.PADDLE: "PADDLEJOB",
}


def print_list(jobs: Sequence[Job], *, tenants: bool) -> None:
    """Print jobs as ``arena list`` does; ``tenants`` adds whose they are."""
    now = terminal.now()
    rows = [(*((job.spec.tenant,) if tenants else ()), *_list_row(job, now)) for job in jobs]
    print_table((*(("NAMESPACE",) if tenants else ()), *LIST_HEADINGS), rows)


def print_instances(job: Job) -> None:
    """Print the replicas of a job as ``arena get`` does."""
    now = terminal.now()
    rows = [_instance_row(job, status, now) for status in job.replicas]
    waiting = (job.name, status_of(job), trainer_of(job), _age(job, now), "N/A", "N/A")
    print_table(INSTANCE_HEADINGS, rows or [waiting])


def print_gpus(job: Job) -> None:
    """Print which replica has how many GPUs, and the sum."""
    rows = [(name_of(job, status), status.node, _gpus(job, status)) for status in job.replicas]
    click.echo("\nGPUs:")
    print_table(("INSTANCE NAME", "NODE", "GPU(Requested)"), rows)
    click.echo(f"\nAllocated/Requested GPUs of Job: {_number(allocated(job))}/{_number(requested(job))}")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    for line in table.lines(headings, rows, width=terminal.width()):
        click.echo(line)


def name_of(job: Job, status: ReplicaStatus) -> str:
    """Call a replica as Arena does: by its pod."""
    return f"{job.name}-{status.id}"


def status_of(job: Job) -> str:
    """Say where a job is in Arena's words."""
    return _STATUSES.get(job.phase, "PENDING")


def trainer_of(job: Job) -> str:
    """Say what kind of job it is."""
    return _TRAINERS.get(job.spec.framework, "JOB")


def requested(job: Job) -> int:
    """Thousandths of GPUs that the whole gang asks for."""
    return sum(role.resources.gpu_millis * role.replicas for role in job.spec.roles)


def allocated(job: Job) -> int:
    """Thousandths of GPUs that the job holds now."""
    if not job.holding:
        return 0
    return sum(job.spec.role(status.id.role).resources.gpu_millis for status in job.replicas)


def _list_row(job: Job, now: Timestamp) -> tuple[str, ...]:
    lead = next((status.node for status in job.replicas if status.id.role == job.spec.lead_role), "N/A")
    return (
        job.name,
        status_of(job),
        trainer_of(job),
        formatting.duration((job.finished_at or now) - job.created_at),
        _number(requested(job)),
        _number(allocated(job)) if job.holding else "N/A",
        lead,
    )


def _instance_row(job: Job, status: ReplicaStatus, now: Timestamp) -> tuple[str, ...]:
    instance, node = name_of(job, status), status.node
    return (job.name, _INSTANCES[status.state], trainer_of(job), _age(job, now), instance, node)


def _age(job: Job, now: Timestamp) -> str:
    return formatting.duration(now - job.created_at)


def _gpus(job: Job, status: ReplicaStatus) -> str:
    return _number(job.spec.role(status.id.role).resources.gpu_millis)


def _number(millis: int) -> str:
    return f"{millis / 1000:g}"
