"""``gangline checkpoints``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, job_argument, output_option, tenant_option
from gangline.cli.kind_commands import print_documents
from gangline.cli.output import formatting, table


@click.command("checkpoints")
@job_argument
@output_option(Output.TABLE, Output.NAME, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, output: str, tenant: str | None) -> None:
    """List the checkpoints that a job has saved, newest first.

    These are the ones of gangline.runtime.Checkpoints in CHECKPOINT_DIR; 'gangline results JOB checkpoints' lists the
    files of any other program.
    """
    found = connect(ctx, tenant=tenant).files.checkpoints(job)
    if output in (Output.JSON, Output.YAML):
        print_documents(found, output)
    elif output == Output.NAME:
        for each in found:
            click.echo(each.path)
    elif not found:
        terminal.say(f"{job} has saved no checkpoints")
    else:
        now = terminal.now()
        rows = [
            (str(each.step), formatting.size(each.size_bytes), formatting.ago(each.saved_at, now), each.path)
            for each in found
        ]
        for line in table.lines(("STEP", "SIZE", "SAVED", "PATH"), rows, width=terminal.width()):
            click.echo(line)
