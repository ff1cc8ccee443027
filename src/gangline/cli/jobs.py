"""Jobs as rows of a table, and one printer for every way of output."""

from collections import Counter
from collections.abc import Sequence

import click

from gangline.cli import table, terminal, words
from gangline.cli.documents import json_text, yaml_text
from gangline.cli.options import Output
from gangline.model import Job, ReplicaState, Timestamp

HEADINGS = ("NAME", "PHASE", "REPLICAS", "AGE", "REASON")
WIDE_HEADINGS = ("NAME", "PHASE", "REPLICAS", "AGE", "ID", "QUEUE", "PRIORITY", "ATTEMPT", "RAN", "NODES", "REASON")

_ALIVE = frozenset({ReplicaState.RUNNING, ReplicaState.SUCCEEDED})


def print_jobs(jobs: Sequence[Job], output: str, *, tenants: bool = False) -> None:
    """Print jobs as the user wants them; ``tenants`` adds to a table whose they are."""
    if output == Output.JSON:
        click.echo(json_text(jobs))
    elif output == Output.YAML:
        click.echo("\n---\n".join(yaml_text(job) for job in jobs), nl=bool(jobs))
    elif output == Output.NAME:
        for job in jobs:
            click.echo(job.name)
    else:
        wide, now = output == Output.WIDE, terminal.now()
        rows = [(*((job.spec.tenant,) if tenants else ()), *row(job, now, wide=wide)) for job in jobs]
        headings = (*(("TENANT",) if tenants else ()), *(WIDE_HEADINGS if wide else HEADINGS))
        for line in table.lines(headings, rows, width=None if wide else terminal.width()):
            click.echo(line)


def row(job: Job, now: Timestamp, *, wide: bool = False) -> tuple[str, ...]:
    """Write one job as a row."""
    start = (job.name, terminal.phase_text(job.phase), replicas_text(job), words.ago(job.created_at, now))
    if not wide:
        return (*start, reason_text(job))
    nodes = ",".join(sorted({status.node for status in job.replicas})) or "-"
    spec = job.spec
    attempt, ran = str(job.attempt), ran_text(job, now)
    return (*start, job.id, spec.queue, str(spec.priority), attempt, ran, nodes, reason_text(job))


def replicas_text(job: Job) -> str:
    """Write how many replicas are alive (or done) of how many there should be."""
    scale = dict(job.scale)
    wanted = len(job.replicas) or sum(scale.get(role.name, role.replicas) for role in job.spec.roles)
    counts = job.holding or job.finished
    return f"{sum(1 for status in job.replicas if counts and status.state in _ALIVE)}/{wanted}"


def ran_text(job: Job, now: Timestamp) -> str:
    """Write how long the job has run or ran."""
    if job.started_at is None:
        return "-"
    return words.duration((job.finished_at or now) - job.started_at)


def reason_text(job: Job) -> str:
    """Write why the job is where it is."""
    return f"{job.reason}: {job.message}" if job.message else job.reason


def state_counts(job: Job) -> dict[str, str]:
    """Write, by role, how many replicas are in which state."""
    counted = {role.name: Counter[str]() for role in job.spec.roles}
    for status in job.replicas:
        counted.setdefault(status.id.role, Counter())[status.state.value] += 1
    return {
        role: ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "not started"
        for role, counts in counted.items()
    }
