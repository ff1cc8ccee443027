"""``gangline audit``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, output_option, tenant_option
from gangline.cli.output import table
from gangline.cli.output.documents import json_text, yaml_text
from gangline.wire import iso, plain


@click.command("audit")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Show at most this many.")
@click.option("--all-tenants", "-A", is_flag=True, help="The whole record; for operators.")
@tenant_option
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@click.pass_context
def command(ctx: click.Context, /, *, limit: int, all_tenants: bool, tenant: str | None, output: str) -> None:
    """Show who changed what of a team's service, newest first: from where, and what it was before and after."""
    client = connect(ctx, tenant=tenant)
    found = client.team.audit("" if all_tenants else client.tenant, limit=limit)
    if output != Output.TABLE:
        click.echo((json_text if output == Output.JSON else yaml_text)(plain(found)))
        return
    rows = [
        (
            iso(each.at)[:19],
            each.who,
            each.origin,
            str(each.status),
            f"{each.method} {each.path}",
        )
        for each in found
    ]
    for line in table.lines(("TIME", "WHO", "FROM", "STATUS", "WHAT"), rows, width=terminal.width()):
        click.echo(line)
