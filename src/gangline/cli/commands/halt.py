"""``gangline halt``."""

import click

from gangline.cli.connection.client import connect
from gangline.cli.input.options import selected_jobs, tenant_option
from gangline.cli.many_jobs import ask_for_each, chosen_jobs, tell_phase
from gangline.model import ACTIVE_PHASES, WAITING_PHASES


@click.command("halt")
@selected_jobs
@tenant_option
@click.pass_context
def command(ctx: click.Context, /, *, jobs: tuple[str, ...], tenant: str | None, **_: object) -> None:
    """Stop jobs so that they keep their checkpoint and hold nothing."""
    client = connect(ctx, tenant=tenant)
    ask_for_each(chosen_jobs(ctx, client, jobs, ACTIVE_PHASES | WAITING_PHASES), client.halt, tell_phase)
