"""``gangline logviewer``."""

import click

from gangline.cli.connection.client import connect, spoken
from gangline.cli.input.options import job_argument, tenant_option
from gangline.cli.output.arena_tables import print_table


@click.command("logviewer")
@job_argument
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, tenant: str | None) -> None:
    """Show where the output of each replica can be seen."""
    found = connect(ctx, tenant=tenant).get(job)
    seen_with = spoken(ctx, "logs -f", found.name, tenant=found.spec.tenant)
    rows = [
        (str(status.id), status.state.value, f"{seen_with} --role {status.id.role} --index {status.id.index}")
        for status in found.replicas
    ]
    print_table(("REPLICA", "STATE", "SEE IT WITH"), rows or [("all", "waiting", seen_with)])
