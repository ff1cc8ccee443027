"""``gangline simulate``."""

from pathlib import Path

import click

from gangline.cli import terminal, words
from gangline.cli.documents import json_text
from gangline.cli.options import Output, output_option

POLICIES = ("fifo", "fifo+backfill", "shortest-first", "least-attained-service", "ours")
FORMATS = ("philly", "pollux", "openb", "csv")
"""What the simulator knows by these names; repeated here so that help does not import it."""


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
    "names",
    type=click.Choice(POLICIES),
    multiple=True,
    help="The rules to schedule by; several are compared side by side.  [default: ours]",
)
@click.option("--limit", type=click.IntRange(1), help="Only so many jobs, the first ones.")
@click.option(
    "--plot", metavar="FILE.png", type=click.Path(path_type=Path), help="Draw waiting and completion times too."
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
    """
    # The simulator brings the whole service with it, which no other command needs.
    from gangline.simulator import (
        RULES,
        TraceFormat,
        new_figure,
        parse_nodes,
        plot_runs,
        read_workload,
        summarise,
        table,
    )

    figure = None if plot is None else new_figure()
    workload = read_workload(trace, TraceFormat(trace_format), limit=limit)
    nodes = parse_nodes(*described) or workload.nodes
    outcomes = {}
    for name in names or ("ours",):
        size = f"{words.counted(len(workload.arrivals), 'job')} on {words.counted(len(nodes), 'node')}"
        terminal.say(f"simulating {size} by {name}")
        outcomes[name] = workload.run(RULES[name], nodes)
    summaries = {name: summarise(outcome, nodes) for name, outcome in outcomes.items()}
    click.echo(json_text(summaries) if output == Output.JSON else table(summaries))
    if plot is not None and figure is not None:
        plot_runs(figure, outcomes, plot)
        terminal.say(f"wrote {plot}")
