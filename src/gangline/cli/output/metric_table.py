"""Metrics as a table; used by every command that shows numbers."""

from collections.abc import Sequence

import click

from gangline.cli import terminal
from gangline.cli.output import formatting, table
from gangline.model import Metric
from gangline.sdk import Metrics

_HEADINGS = ("METRIC", "VALUE", "STEP", "REPLICA", "REPORTED")


def tell_of_missing(metrics: Metrics) -> None:
    """Say what is not among the numbers that were read."""
    if len(metrics) < metrics.total:
        kept = f"{len(metrics):,} of {metrics.total:,} values"
        terminal.say(f"thinned out for drawing: {kept}, the lowest and the highest of each stretch of time")
    if not metrics.complete:
        terminal.say("older values are gone: a cluster keeps the newest 10,000 of a job")


def print_metrics(metrics: Sequence[Metric]) -> None:
    """Print metrics in the order given."""
    now = terminal.now()
    rows = [
        (
            metric.name,
            formatting.number(metric.value),
            "-" if metric.step is None else str(metric.step),
            str(metric.replica),
            formatting.ago(metric.at, now),
        )
        for metric in metrics
    ]
    for line in table.lines(_HEADINGS, rows, width=terminal.width()):
        click.echo(line)
