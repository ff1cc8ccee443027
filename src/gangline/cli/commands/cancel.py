"""``gangline cancel``."""

import click

from gangline.cli.connection.client import connect
from gangline.cli.input.options import selected_jobs, tenant_option
from gangline.cli.many_jobs import ask_for_each, chosen_jobs, tell_phase
from gangline.model import FINAL_PHASES, Phase


@click.command("cancel")
@selected_jobs
@tenant_option
@click.pass_context
def command(ctx: click.Context, /, *, jobs: tuple[str, ...], tenant: str | None, **_: object) -> None:
    """End jobs for good; their record, logs and metrics stay."""
    client = connect(ctx, tenant=tenant)
    ask_for_each(chosen_jobs(ctx, client, jobs, set(Phase) - FINAL_PHASES), client.cancel, tell_phase)
