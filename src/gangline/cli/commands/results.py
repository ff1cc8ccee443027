"""``gangline results``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, job_argument, output_option, tenant_option
from gangline.cli.kind_commands import print_documents
from gangline.cli.output import formatting, table


@click.command("results")
@job_argument
@click.argument("path", metavar="[PATH]", default="results")
@output_option(Output.TABLE, Output.NAME, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, path: str, output: str, tenant: str | None) -> None:
    """List the files that a job has left so far; PATH may be below results/, checkpoints/ or data/."""
    found = connect(ctx, tenant=tenant).files.list(job, path)
    if output in (Output.JSON, Output.YAML):
        print_documents(found, output)
    elif output == Output.NAME:
        for file in found:
            click.echo(file.path)
    elif not found:
        terminal.say(f"{job} has no files in {path}")
    else:
        now = terminal.now()
        rows = [(each.path, formatting.size(each.size_bytes), formatting.ago(each.changed_at, now)) for each in found]
        for line in table.lines(("FILE", "SIZE", "CHANGED"), rows, width=terminal.width()):
            click.echo(line)
