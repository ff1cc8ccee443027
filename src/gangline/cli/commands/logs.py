"""``gangline logs``."""

import click

from gangline.cli import terminal, words
from gangline.cli.connection import connect
from gangline.cli.instances import replica_named
from gangline.cli.options import job_argument, tenant_option
from gangline.cli.output_lines import LinePrinter
from gangline.model import Timestamp


@click.command("logs")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is finished or halted.")
@click.option("--role", metavar="ROLE", help="Only this role.")
@click.option("--index", type=click.IntRange(0), help="Only the replica with this index.")
@click.option("-i", "--instance", metavar="REPLICA", help="Only this replica: worker-1, or JOB-worker-1.")
@click.option("--attempt", type=click.IntRange(1), help="This attempt instead of the last one.")
@click.option("--since", metavar="DURATION", help="Only lines of the last 10m, 2h, ...")
@click.option("--tail", type=click.IntRange(0), help="Only so many last lines of each replica.")
@click.option("-t", "--timestamps", is_flag=True, help="Show when each line was written.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    job: str,
    follow: bool,
    role: str | None,
    index: int | None,
    instance: str | None,
    attempt: int | None,
    since: str | None,
    tail: int | None,
    timestamps: bool,
    tenant: str | None,
) -> None:
    """Show the output of a job's replicas."""
    seconds = None if since is None else words.read_duration(since, "--since")
    client = connect(ctx, tenant=tenant)
    if instance is not None:
        replica = replica_named(client.get(job), instance)
        role, index = replica.role, replica.index
    lines = client.logs(
        job,
        follow=follow,
        role=role,
        index=index,
        attempt=attempt,
        since=None if seconds is None else Timestamp(terminal.now() - seconds),
        tail=tail,
    )
    spec = client.get(job).spec
    single = index is not None or sum(known.most for known in spec.roles if role in (None, known.name)) == 1
    printer = LinePrinter(prefixed=not single, timestamps=timestamps, flush=follow)
    for line in lines:
        printer.print(line)
