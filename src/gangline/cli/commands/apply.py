"""``gangline apply``."""

from typing import Any

import click

from gangline.cli import terminal
from gangline.cli.commands.submit import Sending, send
from gangline.cli.connection.client import chosen_settings, connect
from gangline.cli.input.job_sources import jobs_from_files, kinds_in
from gangline.cli.input.options import Output, job_files_option, tenant_option
from gangline.cli.kind_commands import read_specs
from gangline.dialects.native import KIND
from gangline.errors import ConflictError, InvalidInputError
from gangline.kinds import AnyKind
from gangline.kinds.registry import kind_named, registered


@click.command("apply")
@job_files_option
@click.option("--replace", "replacing", is_flag=True, help="Delete a job that differs and submit it again.")
@click.option("--wait", "waiting", is_flag=True, help="Wait for the end of the jobs; exit with their exit code.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent, and send nothing.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    files: tuple[str, ...],
    replacing: bool,
    waiting: bool,
    dry_run: bool,
    tenant: str | None,
) -> int:
    """Create or update what files describe: jobs, queues, sweeps and every other kind.

    A job is submitted unless one of its name says the same already; other kinds are created or changed.
    """
    if not files:
        raise click.UsageError("a file is needed (-f)", ctx)
    code = 0
    for file in files:
        kinds = kinds_in(file)
        if kinds == {KIND}:
            given = {"tenant": tenant} if tenant else {}
            jobs = jobs_from_files((file,), (), given, chosen_settings(ctx))
            how = Sending(
                following=False,
                waiting=waiting,
                halted=False,
                dry_run=dry_run,
                output=Output.NAME,
                replacing=replacing,
                applying=True,
            )
            code = send(ctx, jobs, how) or code
        elif len(kinds) == 1 and (name := kinds.pop().lower()) in registered():
            _apply_records(ctx, kind_named(name), file, tenant, dry_run=dry_run)
        else:
            raise InvalidInputError(
                f"it holds several kinds: {', '.join(sorted(kinds))}", file=file, expected="one kind"
            )
    return code


def _apply_records(ctx: click.Context, kind: AnyKind, file: str, tenant: str | None, *, dry_run: bool) -> None:
    """Create records, or make those that are there what the file says."""
    for spec in read_specs(ctx, kind, file, tenant):
        if dry_run:
            from gangline.cli.output.documents import yaml_text

            click.echo(yaml_text(kind.format.write(spec)))
            continue
        records: Any = connect(ctx, tenant=getattr(spec, "tenant", None)).records(kind)
        try:
            records.create(spec)
            terminal.say(f"{kind.name} {spec.name} is created")
        except ConflictError:
            if records.get(spec.name).spec == spec:
                terminal.say(f"{kind.name} {spec.name} is unchanged")
            elif kind.editable:
                records.edit(spec)
                terminal.say(f"{kind.name} {spec.name} is changed")
            else:
                raise
        click.echo(spec.name)
