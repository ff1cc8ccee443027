"""``gangline describe``."""

from collections.abc import Iterator
from contextlib import suppress

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import job_argument, tenant_option
from gangline.cli.output import formatting, table
from gangline.cli.output.last_lines import last_lines
from gangline.cli.output.metric_table import print_metrics
from gangline.cli.output.speed_table import CURVE_COLUMNS, curve_rows
from gangline.errors import ConflictError
from gangline.model import Job, Sizing, Timestamp
from gangline.model.wording import ran_text, reason_text, state_counts
from gangline.sdk import JournalRecord

_LAST_EVENTS = 15


@click.command("describe")
@job_argument
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, tenant: str | None) -> None:
    """Show everything known about a job."""
    client = connect(ctx, tenant=tenant)
    found = client.get(job)
    now = terminal.now()
    for line in _summary(found, now):
        click.echo(line)
    _section("Roles", ("ROLE", "REPLICAS", "EACH", "STATE", "COMMAND"), _roles(found))
    _section("Replicas", ("REPLICA", "NODE", "STATE", "EXIT", "STARTED", "MESSAGE"), _replicas(found, now))
    _section("Phases", ("PHASE", "AT", "REASON"), _phases(found, now))
    if lines := last_lines(client, found):
        click.echo("\n" + "\n".join(lines))
    _section("Events", ("AT", "REASON", "REPLICA", "MESSAGE"), event_rows(client.events(found.id)[-_LAST_EVENTS:], now))
    if metrics := client.latest_metrics(found.id):
        click.echo()
        print_metrics(metrics)
    if found.spec.policy.replicas is Sizing.AUTO:
        _print_sizes(found)
    if found.placeable:
        with suppress(ConflictError):  # it has started since we asked for it
            sentences = client.explain(found.id).sentences
            click.echo("\nWhy it waits:")
            for sentence in sentences:
                click.echo(f"  {sentence}")


def _print_sizes(job: Job) -> None:
    """What was measured of a job whose size the scheduler chooses, and what the next sizes would bring."""
    from gangline.allocation.outlook import present_size, size_sentences, sized_role_of  # brings NumPy

    sentences = list(size_sentences(job))
    if sentences:
        click.echo("\nIts size:")
        for sentence in sentences:
            click.echo(f"  {sentence}")
    role = sized_role_of(job)
    if role is not None and job.speed is not None:
        now, most = max(present_size(job), 1), job.spec.role(role).most
        near = {size for size in (1, now // 2, now - 1, now, now + 1, 2 * now) if 1 <= size <= most}
        click.echo()
        for line in table.lines(CURVE_COLUMNS, curve_rows(job, sorted(near)), width=terminal.width()):
            click.echo(line)


def event_rows(records: tuple[JournalRecord, ...], now: Timestamp) -> list[tuple[str, ...]]:
    """Write a journal as rows."""
    return [
        (formatting.ago(record.at, now), record.reason, str(record.replica or "-"), record.message)
        for record in records
    ]


def _summary(job: Job, now: Timestamp) -> Iterator[str]:
    spec = job.spec
    facts = {
        "Name": job.name,
        "Id": job.id,
        "Tenant": spec.tenant,
        "Queue": f"{spec.queue} (priority {spec.priority})",
        "Labels": ", ".join(f"{key}={value}" for key, value in spec.labels.items()),
        "Framework": "" if spec.framework == "none" else spec.framework.value,
        "Code": spec.code or "",
        "Origin": spec.origin or "",
        "Phase": f"{terminal.phase_text(job.phase)} ({reason_text(job)})",
        "Submitted": formatting.ago(job.created_at, now),
        "Ran": ran_text(job, now),
        "Checkpoint": "" if job.checkpoint_at is None else formatting.ago(job.checkpoint_at, now),
        "Attempt": f"{job.attempt} ({job.failures} of at most {spec.policy.max_attempts} failed)",
        "Exit code": "" if job.exit_code is None else str(job.exit_code),
    }
    for name, fact in facts.items():
        if fact:
            yield f"{name + ':':<11} {table.one_line(fact)}"


def _roles(job: Job) -> list[tuple[str, ...]]:
    states = state_counts(job)
    return [
        (
            role.name,
            f"{role.replicas} ({role.least} to {role.most})" if role.elastic else str(role.replicas),
            formatting.amount(role.resources),
            states[role.name],
            " ".join(role.command),
        )
        for role in job.spec.roles
    ]


def _replicas(job: Job, now: Timestamp) -> list[tuple[str, ...]]:
    return [
        (
            str(status.id),
            status.node,
            status.state.value,
            "-" if status.exit_code is None else str(status.exit_code),
            formatting.ago(status.started_at, now),
            status.message,
        )
        for status in job.replicas
    ]


def _phases(job: Job, now: Timestamp) -> list[tuple[str, ...]]:
    return [
        (entry.phase.value, formatting.ago(entry.at, now), f"{entry.reason}: {entry.message}".rstrip(": "))
        for entry in job.history
    ]


def _section(title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if not rows:
        return
    click.echo(f"\n{title}:")
    width = terminal.width()
    for line in table.lines(headings, rows, width=None if width is None else width - 2):
        click.echo(f"  {line}")
