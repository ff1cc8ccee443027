"""``gangline metrics``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, jobs_argument, output_option, tenant_option
from gangline.cli.output import formatting
from gangline.cli.output.documents import csv_text, json_text, yaml_text
from gangline.cli.output.drawings.curves import PLOTTED_POINTS, Against, Curve, Scale, curve_of
from gangline.cli.output.drawings.terminal_plot import draw
from gangline.cli.output.metric_table import print_metrics, tell_of_missing
from gangline.cli.output.mlflow import write_run
from gangline.model import Metric, Timestamp
from gangline.sdk import Metrics
from gangline.wire import iso

Found = Mapping[str, Metrics]
"""What each job has reported."""


@click.command("metrics")
@jobs_argument
@click.option("--name", metavar="METRIC", help="Only this metric.")
@click.option("--since", metavar="DURATION", help="Only values of the last 10m, 2h, ...")
@click.option("--latest", is_flag=True, help="Only the newest value of each.")
@click.option("--plot", "plotted", is_flag=True, help="Draw each metric as curves, one per replica of each job.")
@click.option("--png", metavar="FILE", help="Write the curves of one metric as a picture (needs gangline[plot]).")
@click.option("--mlflow", metavar="DIRECTORY", help="Write the jobs as runs in MLflow's file format.")
@click.option(
    "--against",
    type=click.Choice([each.value for each in Against]),
    default="time",
    show_default=True,
    help="What runs across.",
)
@click.option("--log-x", is_flag=True, help="A logarithmic horizontal axis.")
@click.option("--log-y", is_flag=True, help="A logarithmic vertical axis.")
@output_option(Output.TABLE, Output.JSON, Output.YAML, Output.CSV)
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    jobs: tuple[str, ...],
    name: str | None,
    since: str | None,
    latest: bool,
    plotted: bool,
    png: str | None,
    mlflow: str | None,
    against: str,
    log_x: bool,
    log_y: bool,
    output: str,
    tenant: str | None,
) -> None:
    """Show the numbers that jobs reported over time; several jobs are drawn into the same picture."""
    start = None if since is None else Timestamp(terminal.now() - formatting.read_duration(since, "--since"))
    client = connect(ctx, tenant=tenant)
    found: dict[str, Metrics] = {}
    for job in jobs:
        if latest:
            found[job] = Metrics(metric for metric in client.latest_metrics(job) if name in (None, metric.name))
        else:
            points = PLOTTED_POINTS if plotted or png else None
            found[job] = client.metrics(job, name=name, since=start, points=points)
        tell_of_missing(found[job])
        if not found[job] and (plotted or png or output == Output.TABLE):
            terminal.say(f"{job} has reported no numbers" + (f" named '{name}'" if name else "") + " yet")
    scale = Scale(x=log_x, y=log_y)
    if mlflow is not None:
        for job, metrics in found.items():
            click.echo(write_run(Path(mlflow), client.get(job), metrics))
    elif png is not None:
        _write(ctx, Path(png), found, Against(against), scale)
    elif plotted:
        _draw(found, Against(against), scale)
    else:
        _print(found, output)


def _print(found: Found, output: str) -> None:
    values = next(iter(found.values())) if len(found) == 1 else found
    if output == Output.JSON:
        click.echo(json_text(values))
    elif output == Output.YAML:
        click.echo(yaml_text(values))
    elif output == Output.CSV:
        rows = [
            (
                job,
                each.name,
                "" if each.step is None else str(each.step),
                repr(each.value),
                str(each.replica),
                iso(each.at),
            )
            for job, metrics in found.items()
            for each in metrics
        ]
        click.echo(csv_text(("job", "metric", "step", "value", "replica", "at"), rows), nl=False)
    else:
        for job, metrics in found.items():
            if len(found) > 1:
                click.echo(f"{job}:")
            if metrics:
                print_metrics(metrics)


def _curves(found: Found, name: str, against: Against) -> list[Curve]:
    return [
        curve_of(str(replica) if len(found) == 1 else f"{job} {replica}", mine, against)
        for job, metrics in found.items()
        for replica in sorted({metric.replica for metric in metrics if metric.name == name})
        if (mine := _of(metrics, name, replica))
    ]


def _of(metrics: Sequence[Metric], name: str, replica: object) -> list[Metric]:
    return [metric for metric in metrics if (metric.name, metric.replica) == (name, replica)]


def _names(found: Found) -> list[str]:
    return sorted({metric.name for metrics in found.values() for metric in metrics})


def _draw(found: Found, against: Against, scale: Scale) -> None:
    unit = "s" if against is Against.TIME else ""
    for name in _names(found):
        curves, width = _curves(found, name, against), terminal.width()
        for line in draw(name, curves, width=width, coloured=terminal.colours(), unit=unit, scale=scale):
            click.echo(line)


def _write(ctx: click.Context, path: Path, found: Found, against: Against, scale: Scale) -> None:
    from gangline.cli.output.drawings.picture import write_picture

    names = _names(found)
    if len(names) != 1:
        raise click.UsageError(f"a picture shows one metric: --name {' or '.join(names) or 'METRIC'}", ctx)
    across = "seconds" if against is Against.TIME else "step"
    write_picture(path, names[0], _curves(found, names[0], against), across=across, scale=scale)
    click.echo(path)
