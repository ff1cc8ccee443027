"""``gangline describe``."""

from collections.abc import Iterator
from contextlib import suppress

import click

from gangline.cli import table, terminal, words
from gangline.cli.connection import connect
from gangline.cli.jobs import ran_text, reason_text, state_counts
from gangline.cli.last_lines import last_lines
from gangline.cli.metric_table import print_metrics
from gangline.cli.options import job_argument, tenant_option
from gangline.errors import ConflictError
from gangline.model import Job, Timestamp
from gangline.sdk import JournalRecord

_LAST_EVENTS = 15


@click.command("describe")
@job_argument
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, tenant: str | None) -> None:
    """Show everything that is known of a job."""
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
    if found.placeable:
        with suppress(ConflictError):  # it has started since we asked for it
            sentences = client.explain(found.id).sentences
            click.echo("\nWhy it waits:")
            for sentence in sentences:
                click.echo(f"  {sentence}")


def event_rows(records: tuple[JournalRecord, ...], now: Timestamp) -> list[tuple[str, ...]]:
    """Write a journal as rows."""
    return [
        (words.ago(record.at, now), record.reason, str(record.replica or "-"), record.message) for record in records
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
        "Submitted": words.ago(job.created_at, now),
        "Ran": ran_text(job, now),
        "Checkpoint": "" if job.checkpoint_at is None else words.ago(job.checkpoint_at, now),
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
            words.amount(role.resources),
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
            words.ago(status.started_at, now),
            status.message,
        )
        for status in job.replicas
    ]


def _phases(job: Job, now: Timestamp) -> list[tuple[str, ...]]:
    return [
        (entry.phase.value, words.ago(entry.at, now), f"{entry.reason}: {entry.message}".rstrip(": "))
        for entry in job.history
    ]


def _section(title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if not rows:
        return
    click.echo(f"\n{title}:")
    width = terminal.width()
    for line in table.lines(headings, rows, width=None if width is None else width - 2):
        click.echo(f"  {line}")
