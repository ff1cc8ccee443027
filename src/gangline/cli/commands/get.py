"""``gangline get``."""

import click

from gangline.cli.connection import connect
from gangline.cli.jobs import print_jobs
from gangline.cli.metric_table import print_metrics
from gangline.cli.options import jobs_argument, output_option, tenant_option
from gangline.cli.watching import print_changes


@click.command("get")
@jobs_argument
@output_option()
@click.option("-w", "--watch", is_flag=True, help="Go on and print every change (one job).")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    jobs: tuple[str, ...],
    output: str,
    watch: bool,
    tenant: str | None,
) -> None:
    """Show jobs and the newest numbers they reported."""
    client = connect(ctx, tenant=tenant)
    if watch:
        if len(jobs) > 1:
            raise click.UsageError("--watch takes one job; 'gangline list --watch' shows all", ctx)
        print_changes(client.watch(jobs[0]), output)
        return
    found = [client.get(job) for job in jobs]
    print_jobs(found, output)
    if output in ("table", "wide"):
        for job in found:
            if metrics := client.latest_metrics(job.id):
                click.echo()
                print_metrics(metrics)
