"""``gangline resume``."""

import click

from gangline.cli.connection import connect
from gangline.cli.one_by_one import ask_for_each, tell_phase
from gangline.cli.options import jobs_argument, tenant_option


@click.command("resume")
@jobs_argument
@tenant_option
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], tenant: str | None) -> None:
    """Let halted jobs go on from their checkpoint."""
    ask_for_each(jobs, connect(ctx, tenant=tenant).resume, tell_phase)
