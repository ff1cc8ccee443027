"""``gangline halt``."""

import click

from gangline.cli.connection import connect
from gangline.cli.one_by_one import ask_for_each, tell_phase
from gangline.cli.options import jobs_argument, tenant_option


@click.command("halt")
@jobs_argument
@tenant_option
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], tenant: str | None) -> None:
    """Stop jobs so that they keep their checkpoint and hold nothing."""
    ask_for_each(jobs, connect(ctx, tenant=tenant).halt, tell_phase)
