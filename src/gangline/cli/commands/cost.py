"""``gangline cost``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, filter_options, output_option, read_phases, tenant_option
from gangline.cli.output import formatting, table
from gangline.cli.output.documents import csv_text, json_text, yaml_text
from gangline.dialects.native import pairs
from gangline.errors import InvalidInputError
from gangline.model import Timestamp
from gangline.model.team.accounting import PRICED
from gangline.sdk.costs import Cost, costs

_HEADINGS = ("JOB", "HELD", "CPU HOURS", "GIB HOURS", "GPU HOURS", "COST")


@click.command("cost")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@filter_options
@click.option("--since", metavar="DURATION", help="Only jobs submitted in the last 7d, 24h, ...")
@click.option(
    "--price",
    "prices",
    metavar="NAME=AMOUNT",
    multiple=True,
    help="What an hour costs: gpu=2.5, cpu=0.04, memory=0.005 (a GiB).",
)
@output_option(Output.TABLE, Output.JSON, Output.YAML, Output.CSV)
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    jobs: tuple[str, ...],
    phases: tuple[str, ...],
    queue: str | None,
    labels: tuple[str, ...],
    limit: int,
    since: str | None,
    prices: tuple[str, ...],
    output: str,
    tenant: str | None,
) -> None:
    """Add up what jobs have used: the time that they held their machines, in all attempts.

    A gang that grew or shrank is counted as the gang that it is now, or last was.
    """
    client, now = connect(ctx, tenant=tenant), terminal.now()
    start = None if since is None else Timestamp(now - formatting.read_duration(since, "--since"))
    wanted, labelled = read_phases(phases), pairs(labels, "--label")
    found = (
        [client.get(job) for job in jobs]
        if jobs
        else client.list(phases=wanted, queue=queue, labels=labelled, created_since=start, limit=limit)
    )
    used = costs(found, now, _prices(prices))
    if output == Output.JSON:
        click.echo(json_text(used))
    elif output == Output.YAML:
        click.echo(yaml_text(used))
    elif output == Output.CSV:
        names = ("job", "tenant", "queue", "hours", "cpu_hours", "memory_gib_hours", "gpu_hours", "money")
        click.echo(csv_text(names, [[str(getattr(each, name)) for name in names] for each in used]), nl=False)
    else:
        for line in table.lines(_HEADINGS, [_row(each) for each in (*used, _together(used))]):
            click.echo(line)


def _row(cost: Cost) -> tuple[str, ...]:
    amounts = (cost.cpu_hours, cost.memory_gib_hours, cost.gpu_hours, cost.money)
    return cost.job, formatting.duration(cost.hours * 3600), *(f"{amount:.2f}" for amount in amounts)


def _together(used: tuple[Cost, ...]) -> Cost:
    sums = {
        name: sum(getattr(each, name) for each in used)
        for name in ("hours", "cpu_hours", "memory_gib_hours", "gpu_hours", "money")
    }
    return Cost(job="(all)", tenant="", queue="", **sums)


def _prices(texts: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for name, text in pairs(texts, "--price", form="NAME=AMOUNT").items():
        if name not in PRICED:
            raise InvalidInputError(f"'{name}' has no price", field="--price", expected=" or ".join(PRICED))
        try:
            found[name] = float(text)
        except ValueError as error:
            raise InvalidInputError(f"'{text}' is not a number", field="--price") from error
    return found
