"""``gangline list``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.following.changes import print_changes
from gangline.cli.input.options import Output, filter_options, output_option, read_phases, tenant_option
from gangline.cli.output.arena_tables import print_list
from gangline.cli.output.job_table import print_jobs, sort_jobs
from gangline.dialects.native import pairs


@click.command("list")
@click.argument("text", required=False)
@filter_options
@output_option(*Output)
@click.option("-w", "--watch", is_flag=True, help="Go on and print every change.")
@click.option("--sort-by", "order", metavar="FIELD", help="name, phase, queue, priority, started, ... or a JSONPath.")
@click.option(
    "-A",
    "--all-namespaces",
    "--all-tenants",
    "all_tenants",
    is_flag=True,
    help="Jobs of all tenants; on a cluster, of all namespaces.",
)
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
    order: str | None,
    all_tenants: bool,
    tenant: str | None,
) -> None:
    """List jobs, newest first; TEXT is part of their names."""
    wanted, labelled = read_phases(phases), pairs(labels, "--label")
    client = connect(ctx, tenant=tenant)
    if watch and output == Output.ARENA:
        raise click.UsageError("-o arena does not go with --watch", ctx)
    if watch:
        changes = client.watch_all(
            text=text, phases=wanted, queue=queue, labels=labelled, limit=limit, all_tenants=all_tenants
        )
        print_changes(changes, output, tenants=all_tenants)
        return
    # One more than is shown tells whether there are more.
    found = client.list(
        text=text, phases=wanted, queue=queue, labels=labelled, limit=limit + 1, all_tenants=all_tenants
    )
    if not found and output in ("table", "wide", "arena"):
        whose = "" if all_tenants else f" of tenant '{client.tenant}' (-A lists those of all tenants)"
        terminal.say(f"no jobs{whose}")
        return
    if order is not None:
        found = (*sort_jobs(found[:limit], order), *found[limit:])
    if output == Output.ARENA:
        print_list(found[:limit], tenants=all_tenants)
    else:
        print_jobs(found[:limit], output, tenants=all_tenants)
    if len(found) > limit:
        terminal.say("there are more jobs; --limit shows them")
