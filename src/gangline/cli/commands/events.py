"""``gangline events``."""

import click

from gangline.cli import terminal
from gangline.cli.commands.describe import event_rows
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, job_argument, output_option, tenant_option
from gangline.cli.output import table
from gangline.cli.output.documents import json_text, yaml_text
from gangline.errors import NotFoundError
from gangline.sdk import Client, JournalRecord

_HEADINGS = ("AT", "REASON", "REPLICA", "MESSAGE")


@click.command("events")
@job_argument
@click.option("-w", "--watch", is_flag=True, help="Go on until the job is gone.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    job: str,
    watch: bool,
    output: str,
    tenant: str | None,
) -> None:
    """Show what happened to a job, oldest first."""
    client = connect(ctx, tenant=tenant)
    if not watch:
        _print(client.events(job), output, heading=True)
        return
    _watch(client, job, output)


def _watch(client: Client, job: str, output: str) -> None:
    last = 0
    for change in client.watch(job):
        if change.job is None:
            return
        try:
            records = client.events(change.job_id, after=last)
        except NotFoundError:
            return  # it was deleted since it changed
        _print(records, output, heading=last == 0)
        last = records[-1].number if records else last


def _print(records: tuple[JournalRecord, ...], output: str, *, heading: bool) -> None:
    if output == Output.JSON:
        click.echo(json_text(records))
    elif output == Output.YAML:
        click.echo(yaml_text(records))
    else:
        lines = table.lines(_HEADINGS, event_rows(records, terminal.now()), width=terminal.width())
        for line in lines if heading else lines[1:]:
            click.echo(line)
