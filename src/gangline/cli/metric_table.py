"""Metrics as a table; used by every command that shows numbers."""

from collections.abc import Sequence

import click

from gangline.cli import table, terminal, words
from gangline.model import Metric

_HEADINGS = ("METRIC", "VALUE", "STEP", "REPLICA", "REPORTED")


def print_metrics(metrics: Sequence[Metric]) -> None:
    """Print metrics in the order given."""
    now = terminal.now()
    rows = [
        (
            metric.name,
            words.number(metric.value),
            "-" if metric.step is None else str(metric.step),
            str(metric.replica),
            words.ago(metric.at, now),
        )
        for metric in metrics
    ]
    for line in table.lines(_HEADINGS, rows, width=terminal.width()):
        click.echo(line)
