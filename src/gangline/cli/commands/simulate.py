"""``gangline simulate``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.input.options import Output, output_option
from gangline.cli.output import formatting
from gangline.cli.output.documents import json_text
from gangline.cli.output.drawings.curves import Curve
from gangline.cli.output.drawings.terminal_plot import draw

POLICIES = ("fifo", "fifo+backfill", "shortest-first", "least-attained-service", "ours")
FORMATS = ("philly", "pollux", "openb", "sia", "gavel", "shockwave", "tiresias", "dlrm", "csv")
"""What the simulator knows by these names; repeated here so that help does not import it."""

HERE = "-"
"""Draw in the terminal."""


def _rules(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Split lists of rules; the beginning of a name that only one has will do."""
    chosen = []
    for word in (word for text in given for word in text.split(",")):
        found = [name for name in POLICIES if name == word] or [name for name in POLICIES if name.startswith(word)]
        if len(found) != 1:
            raise click.BadParameter(f"'{word}' is not one of {', '.join(POLICIES)}", ctx, parameter)
        chosen += found
    return tuple(dict.fromkeys(chosen))


@click.command("simulate")
@click.option("--trace", metavar="FILE", required=True, type=click.Path(path_type=Path), help="The jobs to simulate.")
@click.option(
    "--format", "trace_format", type=click.Choice(FORMATS), default="csv", show_default=True, help="What it is."
)
@click.option(
    "--nodes",
    "described",
    metavar="NODES",
    multiple=True,
    help="The machines: COUNTxGPUS[xTYPE], such as 16x4; repeatable. Those the trace was made for if not given.",
)
@click.option(
    "--policy",
    "--rules",
    "names",
    metavar="NAME[,NAME]",
    multiple=True,
    callback=_rules,
    help=f"The rules to schedule by: {', '.join(POLICIES)}; several are compared side by side.  [default: ours]",
)
@click.option("--limit", type=click.IntRange(1), help="Only the first jobs of the trace, this many.")
@click.option(
    "--plot",
    metavar="[FILE.png]",
    is_flag=False,
    flag_value=HERE,
    type=click.Path(path_type=Path),
    help="Draw waiting and completion times and the length of the queue too, here or into a file.",
)
@output_option(Output.TABLE, Output.JSON)
def command(
    *,
    trace: Path,
    trace_format: str,
    described: tuple[str, ...],
    names: tuple[str, ...],
    limit: int | None,
    plot: Path | None,
    output: str,
) -> None:
    """Run a trace of jobs through the real scheduler in virtual time.

    \b
    gangline simulate --trace jobs.csv --nodes 16x4
    gangline simulate --trace philly.csv.gz --format philly --policy fifo --policy ours --plot waits.png
    gangline simulate --trace jobs.csv --rules fifo,least-attained,ours --plot
    """
    # The simulator brings the whole service with it, which no other command needs.
    from gangline.simulator import (
        RULES,
        TraceFormat,
        completion_times,
        new_figure,
        parse_nodes,
        plot_runs,
        queue_lengths,
        read_workload,
        summarise,
        table,
        waiting_times,
    )

    figure = None if plot is None or str(plot) == HERE else new_figure()
    workload = read_workload(trace, TraceFormat(trace_format), limit=limit)
    nodes = parse_nodes(*described) or workload.nodes
    outcomes = {}
    for name in names or ("ours",):
        size = f"{formatting.counted(len(workload.arrivals), 'job')} on {formatting.counted(len(nodes), 'node')}"
        terminal.say(f"simulating {size} by {name}")
        outcomes[name] = workload.run(RULES[name], nodes)
    summaries = {name: summarise(outcome, nodes) for name, outcome in outcomes.items()}
    click.echo(json_text(summaries) if output == Output.JSON else table(summaries))
    if plot is not None and figure is not None:
        plot_runs(figure, outcomes, plot)
        terminal.say(f"wrote {plot}")
    elif plot is not None:
        _draw(
            "share of jobs that waited at most this long",
            {name: waiting_times(each) for name, each in outcomes.items()},
        )
        _draw(
            "share of jobs that took at most this long",
            {name: completion_times(each) for name, each in outcomes.items()},
        )
        lengths = {name: queue_lengths(each) for name, each in outcomes.items()}
        _show("jobs that waited, over time", [Curve(label=name, points=tuple(each)) for name, each in lengths.items()])


def _draw(title: str, runs: Mapping[str, Sequence[float]]) -> None:
    """Times along the axis, each as high as the share of the jobs that had no more."""
    curves = [
        Curve(label=name, points=tuple((at, (number + 1) / len(times)) for number, at in enumerate(times)))
        for name, times in runs.items()
    ]
    _show(title, curves)


def _show(title: str, curves: Sequence[Curve]) -> None:
    for line in draw(title, curves, width=terminal.width(), coloured=terminal.colours()):
        click.echo(line)
