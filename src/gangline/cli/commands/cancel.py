"""``gangline cancel``."""

import click

from gangline.cli.connection import connect
from gangline.cli.one_by_one import ask_for_each, tell_phase
from gangline.cli.options import jobs_argument, tenant_option


@click.command("cancel")
@jobs_argument
@tenant_option
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], tenant: str | None) -> None:
    """End jobs for good; their record, logs and metrics stay."""
    ask_for_each(jobs, connect(ctx, tenant=tenant).cancel, tell_phase)
