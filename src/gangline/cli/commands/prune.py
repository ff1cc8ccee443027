"""``gangline prune``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import tenant_option
from gangline.cli.output import formatting
from gangline.model import Timestamp


@click.command("prune")
@click.option("--older-than", metavar="DURATION", required=True, help="Jobs that finished longer ago: 7d, 12h, 0s.")
@tenant_option
@click.pass_context
def command(ctx: click.Context, older_than: str, tenant: str | None) -> None:
    """Delete jobs that finished long ago and print their names."""
    seconds = formatting.read_duration(older_than, "--older-than")
    names = connect(ctx, tenant=tenant).prune(finished_before=Timestamp(terminal.now() - seconds))
    for name in names:
        click.echo(name)
    terminal.say(f"{formatting.counted(len(names), 'job')} deleted" if names else "nothing to delete")
