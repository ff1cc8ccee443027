"""``gangline logs``."""

from collections.abc import Callable

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.instances import replica_named
from gangline.cli.input.options import job_argument, tenant_option
from gangline.cli.output import formatting
from gangline.cli.output.output_lines import LinePrinter
from gangline.errors import InvalidInputError
from gangline.model import Timestamp


@click.command("logs")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is finished or halted.")
@click.option("--role", metavar="ROLE", help="Only this role.")
@click.option("--index", type=click.IntRange(0), help="Only the replica with this index.")
@click.option("-i", "--instance", metavar="REPLICA", help="Only this replica: worker-1, or JOB-worker-1.")
@click.option("--attempt", type=click.IntRange(1), help="This attempt instead of the last one.")
@click.option("--since", metavar="DURATION", help="Only lines of the last 10m, 2h, ...")
@click.option("--tail", type=click.IntRange(0), help="At most this many of the last lines of each replica.")
@click.option("--grep", "pattern", metavar="PATTERN", help="Only lines in which this regular expression is found.")
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
    pattern: str | None,
    timestamps: bool,
    tenant: str | None,
) -> None:
    """Show the output of a job's replicas."""
    seconds = None if since is None else formatting.read_duration(since, "--since")
    wanted = _matching(pattern)
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
        if wanted(line.text):
            printer.print(line)


def _matching(pattern: str | None) -> Callable[[str], object]:
    if pattern is None:
        return lambda _: True
    import re

    try:
        return re.compile(pattern).search
    except re.error as error:
        raise InvalidInputError(f"'{pattern}' is not a regular expression: {error}", field="--grep") from error
