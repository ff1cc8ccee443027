"""``gangline halt``."""

import click

from gangline.cli import terminal
from gangline.cli.connection import connect
from gangline.cli.options import jobs_argument, tenant_option


@click.command("halt")
@jobs_argument
@tenant_option
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], tenant: str | None) -> None:
    """Stop jobs so that they keep their checkpoint and hold nothing."""
    client = connect(ctx, tenant=tenant)
    for job in jobs:
        changed = client.halt(job)
        terminal.say(f"{changed.name} is {changed.phase}")
