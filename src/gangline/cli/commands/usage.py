"""``gangline usage``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, output_option, tenant_option
from gangline.cli.output import formatting, table
from gangline.cli.output.documents import csv_text, json_text, yaml_text
from gangline.model import Timestamp
from gangline.model.team.accounting import Group, Period, UsageReport, UsageRow
from gangline.wire import iso, plain

_AMOUNTS = ("gpu_hours", "cpu_hours", "memory_gib_hours", "waiting_hours", "idle_gpu_hours", "idle_cpu_hours", "cost")
_HEADINGS = ("JOBS", "GPU HOURS", "CPU HOURS", "GIB HOURS", "WAITED", "IDLE GPU", "IDLE CPU", "COST")


@click.command("usage")
@click.option(
    "--by",
    metavar="WORDS",
    default="",
    help="What to add up by: some of tenant, queue and user, with commas between; the tenant unless said.",
)
@click.option("--every", type=click.Choice([each.value for each in Period]), help="One line for each, in UTC.")
@click.option("--since", metavar="DURATION", default="30d", show_default=True, help="Start this long ago: 7d, 24h, ...")
@click.option("--until", metavar="DURATION", help="End this long ago; now if not given.")
@click.option("--all-tenants", "-A", is_flag=True, help="Of all tenants; for operators.")
@tenant_option
@output_option(Output.TABLE, Output.JSON, Output.YAML, Output.CSV)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    by: str,
    every: str | None,
    since: str,
    until: str | None,
    all_tenants: bool,
    tenant: str | None,
    output: str,
) -> None:
    """Add up what was used: hours of GPUs, CPUs and memory that jobs held, how long they waited, and what was idle.

    Idle is what a gang held while it was being started or stopped, or while its data was on the way. Prices are the
    setting of the service ('prices'). Jobs that were deleted are not counted.
    """
    client, now = connect(ctx, tenant=tenant), terminal.now()
    start = Timestamp(now - formatting.read_duration(since, "--since"))
    end = None if until is None else Timestamp(now - formatting.read_duration(until, "--until"))
    groups = tuple(word.strip() for word in by.split(",") if word.strip()) or (Group.TENANT.value,)
    found = client.team.usage("" if all_tenants else client.tenant, since=start, until=end, by=groups, every=every)
    if output == Output.JSON:
        click.echo(json_text(plain(found)))
    elif output == Output.YAML:
        click.echo(yaml_text(plain(found)))
    elif output == Output.CSV:
        names = ("begins_at", *Group, "jobs", *_AMOUNTS)
        rows = [[iso(each.begins_at), *(str(getattr(each, name)) for name in names[1:])] for each in found.rows]
        click.echo(csv_text(names, rows), nl=False)
    else:
        _print(found, groups, every)


def _print(found: UsageReport, groups: tuple[str, ...], every: str | None) -> None:
    headings = (*(() if every is None else (every.upper(),)), *(word.upper() for word in groups), *_HEADINGS)
    rows = [_row(each, groups, every) for each in found.rows]
    for line in table.lines(headings, rows, width=terminal.width()):
        click.echo(line)


def _row(row: UsageRow, groups: tuple[str, ...], every: str | None) -> tuple[str, ...]:
    begins = () if every is None else (iso(row.begins_at)[: {"hour": 13, "day": 10, "month": 7}[every]],)
    names = (getattr(row, name) or "-" for name in groups)
    return (*begins, *names, str(row.jobs), *(f"{getattr(row, name):.2f}" for name in _AMOUNTS))
