"""``gangline metrics``."""

from collections.abc import Sequence

import click

from gangline.cli import terminal, words
from gangline.cli.connection import connect
from gangline.cli.curves import PLOTTED_POINTS, curve_of
from gangline.cli.documents import json_text, yaml_text
from gangline.cli.metric_table import print_metrics, tell_of_missing
from gangline.cli.options import Output, job_argument, output_option, tenant_option
from gangline.cli.terminal_plot import draw
from gangline.model import Metric, Timestamp
from gangline.sdk import Metrics


@click.command("metrics")
@job_argument
@click.option("--name", metavar="METRIC", help="Only this metric.")
@click.option("--since", metavar="DURATION", help="Only values of the last 10m, 2h, ...")
@click.option("--latest", is_flag=True, help="Only the newest value of each.")
@click.option("--plot", "plotted", is_flag=True, help="Draw each metric as curves, one per replica.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    job: str,
    name: str | None,
    since: str | None,
    latest: bool,
    plotted: bool,
    output: str,
    tenant: str | None,
) -> None:
    """Show the numbers a job reported over time."""
    start = None if since is None else Timestamp(terminal.now() - words.read_duration(since, "--since"))
    client = connect(ctx, tenant=tenant)
    if latest:
        found = Metrics(metric for metric in client.latest_metrics(job) if name in (None, metric.name))
    else:
        found = client.metrics(job, name=name, since=start, points=PLOTTED_POINTS if plotted else None)
    tell_of_missing(found)
    if not found and (plotted or output == Output.TABLE):
        terminal.say(f"{job} has reported no numbers" + (f" named '{name}'" if name else "") + " yet")
    elif plotted:
        _draw(found)
    elif output == Output.JSON:
        click.echo(json_text(found))
    elif output == Output.YAML:
        click.echo(yaml_text(found))
    else:
        print_metrics(found)


def _draw(metrics: Sequence[Metric]) -> None:
    for name in sorted({metric.name for metric in metrics}):
        replicas = sorted({metric.replica for metric in metrics if metric.name == name})
        curves = [
            curve_of(str(replica), [metric for metric in metrics if (metric.name, metric.replica) == (name, replica)])
            for replica in replicas
        ]
        for line in draw(name, curves, width=terminal.width(), coloured=terminal.colours()):
            click.echo(line)
