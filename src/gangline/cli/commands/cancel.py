"""``gangline cancel``."""

import click

from gangline.cli import terminal
from gangline.cli.connection import connect
from gangline.cli.options import jobs_argument, tenant_option


@click.command("cancel")
@jobs_argument
@tenant_option
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], tenant: str | None) -> None:
    """End jobs for good; their record, logs and metrics stay."""
    client = connect(ctx, tenant=tenant)
    for job in jobs:
        changed = client.cancel(job)
        terminal.say(f"{changed.name} is {changed.phase}")
