"""``gangline resume``."""

import click

from gangline.cli import terminal
from gangline.cli.connection import connect
from gangline.cli.options import jobs_argument, tenant_option


@click.command("resume")
@jobs_argument
@tenant_option
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], tenant: str | None) -> None:
    """Let halted jobs go on from their checkpoint."""
    client = connect(ctx, tenant=tenant)
    for job in jobs:
        changed = client.resume(job)
        terminal.say(f"{changed.name} is {changed.phase}")
