"""``gangline list``."""

import click

from gangline.cli import terminal
from gangline.cli.arena_tables import print_list
from gangline.cli.connection import connect
from gangline.cli.jobs import print_jobs
from gangline.cli.options import Output, filter_options, output_option, read_phases, tenant_option
from gangline.cli.watching import print_changes
from gangline.dialects.native import pairs


@click.command("list")
@click.argument("text", required=False)
@filter_options
@output_option(*Output)
@click.option("-w", "--watch", is_flag=True, help="Go on and print every change.")
@click.option("-A", "--all-tenants", is_flag=True, help="Jobs of all tenants; on a cluster, of all namespaces.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    text: str | None,
    phases: tuple[str, ...],
    queue: str | None,
    labels: tuple[str, ...],
    limit: int,
    output: str,
    watch: bool,
    all_tenants: bool,
    tenant: str | None,
) -> None:
    """List jobs, newest first; TEXT is part of their names."""
    wanted, labelled = read_phases(phases), pairs(labels, "--label")
    client = connect(ctx, tenant=tenant)
    if watch and (all_tenants or output == Output.ARENA):
        raise click.UsageError(f"{'--all-tenants' if all_tenants else '-o arena'} does not go with --watch", ctx)
    if watch:
        changes = client.watch_all(text=text, phases=wanted, queue=queue, labels=labelled, limit=limit)
        print_changes(changes, output)
        return
    # One more than is shown tells whether there are more.
    found = client.list(
        text=text, phases=wanted, queue=queue, labels=labelled, limit=limit + 1, all_tenants=all_tenants
    )
    if not found and output in ("table", "wide", "arena"):
        whose = "" if all_tenants else f" of tenant '{client.tenant}' (-A lists those of all tenants)"
        terminal.say(f"no jobs{whose}")
        return
    if output == Output.ARENA:
        print_list(found[:limit], tenants=all_tenants)
    else:
        print_jobs(found[:limit], output, tenants=all_tenants)
    if len(found) > limit:
        terminal.say("there are more jobs; --limit shows them")
