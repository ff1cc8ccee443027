"""``gangline shell``."""

import click

from gangline.cli.commands import attach
from gangline.cli.input.options import job_argument, tenant_option


@click.command("shell")
@job_argument
@click.option(
    "-i", "--instance", metavar="REPLICA", help="The replica, such as worker-1; the lead replica if not given."
)
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, instance: str | None, tenant: str | None) -> object:
    """Open a terminal where a replica runs, here or in a cluster; 'attach JOB -- COMMAND' runs one command."""
    return ctx.invoke(attach.command, job=job, words=(), instance=instance, tenant=tenant)
