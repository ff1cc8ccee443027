"""Jobs as rows of a table, and one printer for every way of output."""

from collections.abc import Sequence

import click

from gangline.cli import terminal
from gangline.cli.input.options import Output
from gangline.cli.output import formatting, table
from gangline.cli.output.documents import csv_text, json_text, print_expression, yaml_text
from gangline.errors import InvalidInputError
from gangline.model import Job, Timestamp
from gangline.model.wording import ran_text, reason_text, replicas_text
from gangline.wire import iso, plain

HEADINGS = ("NAME", "PHASE", "REPLICAS", "AGE", "REASON")
WIDE_HEADINGS = ("NAME", "PHASE", "REPLICAS", "AGE", "ID", "QUEUE", "PRIORITY", "ATTEMPT", "RAN", "NODES", "REASON")

_CSV_HEADINGS = (
    *("name", "id", "tenant", "queue", "priority", "phase", "reason", "message", "replicas", "attempt"),
    *("created", "started", "finished", "exit_code", "nodes"),
)


def print_jobs(jobs: Sequence[Job], output: str, *, tenants: bool = False, single: bool = False) -> None:
    """Print jobs as the user wants them; ``tenants`` adds to a table whose they are.

    ``single`` is for one job that was asked for by its name: its JSON is an object, and no list of one.
    """
    if print_expression(jobs, output, single=single):
        return
    if output == Output.JSON:
        click.echo(json_text(jobs[0] if single else jobs))
    elif output == Output.CSV:
        rows = [_csv_row(job) for job in jobs]
        click.echo(csv_text(_CSV_HEADINGS, rows), nl=False)
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


_ORDERS = {
    "name": ".metadata.name",
    "tenant": ".metadata.tenant",
    "queue": ".metadata.queue",
    "priority": ".metadata.priority",
    "phase": ".status.phase",
    "created": ".status.created_at",
    "age": ".status.created_at",
    "started": ".status.started_at",
    "finished": ".status.finished_at",
    "attempt": ".status.attempt",
}


def sort_jobs(jobs: Sequence[Job], order: str) -> list[Job]:
    """Sort jobs by a field, by its name or its path in ``-o json``; those without it come last."""
    from gangline.cli.output.expressions import found_at

    if order not in _ORDERS and not order.startswith((".", "{")):
        expected = f"{', '.join(_ORDERS)}, or a path such as .status.phase"
        raise InvalidInputError(f"jobs are not sorted by '{order}'", field="--sort-by", expected=expected)
    path = _ORDERS.get(order, order.strip("{}"))

    def key(job: Job) -> tuple[bool, bool, object]:
        value = next(iter(found_at(plain(job), path)), None)
        number = isinstance(value, int | float)
        return value is None, not number, value if number else str(value)

    return sorted(jobs, key=key)  # numbers and texts are never compared with each other


def _csv_row(job: Job) -> tuple[str, ...]:
    """Write one job for programs: times in full, nothing shortened."""
    times = ["" if at is None else iso(at) for at in (job.created_at, job.started_at, job.finished_at)]
    nodes = " ".join(sorted({status.node for status in job.replicas}))
    code = "" if job.exit_code is None else str(job.exit_code)
    spec = job.spec
    start = (job.name, job.id, spec.tenant, spec.queue, str(spec.priority), job.phase.value, job.reason, job.message)
    return (*start, replicas_text(job), str(job.attempt), *times, code, nodes)


def row(job: Job, now: Timestamp, *, wide: bool = False) -> tuple[str, ...]:
    """Write one job as a row."""
    start = (job.name, terminal.phase_text(job.phase), replicas_text(job), formatting.ago(job.created_at, now))
    if not wide:
        return (*start, reason_text(job))
    nodes = ",".join(sorted({status.node for status in job.replicas})) or "-"
    spec = job.spec
    attempt, ran = str(job.attempt), ran_text(job, now)
    return (*start, job.id, spec.queue, str(spec.priority), attempt, ran, nodes, reason_text(job))
