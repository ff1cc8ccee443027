"""``gangline diff``."""

from collections.abc import Sequence

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_settings, connect
from gangline.cli.input.job_sources import jobs_from_files
from gangline.cli.input.options import Output, job_files_option, output_option, tenant_option
from gangline.cli.kind_commands import print_documents
from gangline.cli.output import table
from gangline.sdk.differences import Difference

TWO = 2


@click.command("diff")
@click.argument("jobs", metavar="[JOB JOB]", nargs=-1)
@job_files_option
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def command(
    ctx: click.Context, /, *, jobs: tuple[str, ...], files: tuple[str, ...], output: str, tenant: str | None
) -> int:
    """Say what two jobs differ in: file, code, inputs, packages, end and last metrics.

    With -f, what submitted jobs differ in from their file as it is now; exits with 1 if they do, as diff does.
    """
    if files:
        return _against_files(ctx, files, jobs, output, tenant)
    if len(jobs) != TWO:
        raise click.UsageError("name two jobs, or a file with -f", ctx)
    first, second = jobs
    _print(connect(ctx, tenant=tenant).diff(first, second), first, second, output)
    return 0


def _against_files(
    ctx: click.Context, files: tuple[str, ...], jobs: tuple[str, ...], output: str, tenant: str | None
) -> int:
    given = {"tenant": tenant} if tenant else {}
    if len(jobs) > 1:
        raise click.UsageError("-f is compared with one job at most", ctx)
    if jobs:
        given["name"] = jobs[0]
    changed = False
    for job in jobs_from_files(files, (), given, chosen_settings(ctx)):
        spec = job.on_one_machine() if not chosen_settings(ctx).context else job.spec
        found = connect(ctx, tenant=spec.tenant).diff_spec(spec)
        _print(found, spec.name, "file", output)
        changed |= bool(found)
    return int(changed)


def _print(found: Sequence[Difference], first: str, second: str, output: str) -> None:
    if output in (Output.JSON, Output.YAML):
        print_documents(found, output)
    elif not found:
        terminal.say(f"{first} and {second} differ in nothing that is on record")
    else:
        rows = [(each.part, each.name, each.first or "-", each.second or "-") for each in found]
        for line in table.lines(("PART", "NAME", first, second), rows, width=terminal.width()):
            click.echo(line)
