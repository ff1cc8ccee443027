"""``gangline sweep``."""

from dataclasses import replace
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect, spoken
from gangline.cli.following.sweep import finish_sweep, follow_sweep
from gangline.cli.input.options import Output, complete_files, output_option, tenant_option
from gangline.cli.kind_commands import add_commands, print_documents, read_specs
from gangline.cli.output.documents import yaml_text
from gangline.cli.output.drawings.curves import PLOTTED_POINTS, Against, Curve, curve_of
from gangline.cli.output.metric_table import tell_of_missing
from gangline.cli.output.sweep_results import (
    best_trials,
    coordinate_rows,
    history_curves,
    history_rows,
    importance_rows,
    print_rows,
    slice_rows,
    trial_rows,
)
from gangline.cli.output.sweep_table import print_trials, summary_text
from gangline.dialects.native import job_to_plain, sweep_to_plain
from gangline.errors import ConflictError, InvalidInputError
from gangline.kinds.sweep import SWEEP
from gangline.model.kinds.sweep import SweepSpec
from gangline.sdk import Client, Metrics, SweepStatus
from gangline.sweeps import check_end, check_objective, check_references, values_text, winner_to_job

_documents = output_option(Output.TABLE, Output.JSON, Output.YAML)
_sweep = click.argument("sweep", metavar="NAME")
_csv = click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
_png = click.option("--png", metavar="FILE", help="Write a picture instead.")


@click.group("sweep", invoke_without_command=True)
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    help="Submit the sweep in this file; '-' is standard input.",
    shell_complete=complete_files,
)
@click.option("--name", metavar="NAME", help="Call it this instead of what the file says.")
@click.option(
    "--follow", "following", is_flag=True, help="Show the trials until the end; exits with 0 if all completed."
)
@click.option("--wait", "waiting", is_flag=True, help="Wait for the end quietly; exits with 0 if all completed.")
@click.option(
    "--warm-start", metavar="NAME", multiple=True, help="Let the sampler learn from what this sweep tried; repeatable."
)
@click.option("--dry-run", is_flag=True, help="Print the sweep as it is understood, and send nothing.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    file: str | None,
    name: str | None,
    following: bool,
    waiting: bool,
    warm_start: tuple[str, ...],
    dry_run: bool,
    tenant: str | None,
) -> int | None:
    """Try one job with many values: submit a sweep, or look at one.

    \b
    gangline sweep -f sweep.yaml --follow
    gangline sweep get NAME
    """
    if ctx.invoked_subcommand is not None:
        if file is not None:
            raise click.UsageError(f"-f submits a sweep and does not go with '{ctx.invoked_subcommand}'", ctx)
        return None
    if file is None:
        raise click.UsageError("name a file (-f) or one of the commands below; --help shows them", ctx)
    spec = _read(ctx, file, name, tenant)
    if dry_run:
        for check in (check_references, check_end, check_objective):
            check(spec)  # as the service would; what only it can know, such as packages, is left to it
        click.echo(yaml_text(sweep_to_plain(spec)))
        return 0
    client = connect(ctx, tenant=spec.tenant)
    submitted = client.sweeps.submit(spec, warm_start=warm_start)
    click.echo(submitted.name)
    if following:
        return follow_sweep(client, submitted.name)
    if waiting:
        return finish_sweep(client.sweeps.wait(submitted.name))
    terminal.say(f"follow it with: {spoken(ctx, 'sweep get -w', submitted.name, tenant=spec.tenant)}")
    return 0


@command.command("get")
@_sweep
@click.option("-w", "--watch", is_flag=True, help="Go on until its end; exits with 0 if all trials completed.")
@_documents
@tenant_option
@click.pass_context
def get(ctx: click.Context, /, *, sweep: str, watch: bool, output: str, tenant: str | None) -> int:
    """Show a sweep's trials with their values, phases, results and times."""
    client = connect(ctx, tenant=tenant)
    if watch:
        return follow_sweep(client, sweep)
    found = client.sweeps.get(sweep)
    if output != Output.TABLE:
        print_documents(found, output)
    else:
        print_trials(found)
        terminal.say(summary_text(found))
    return 0


@command.command("plot")
@_sweep
@click.option("--metric", metavar="NAME", help="What to draw; the sweep's objective if not given.")
@click.option(
    "--against",
    type=click.Choice([each.value for each in Against]),
    default=Against.TIME.value,
    show_default=True,
    help="What runs along the horizontal axis.",
)
@click.option("--png", metavar="FILE", help="Write a picture instead of drawing in the terminal.")
@tenant_option
@click.pass_context
def plot(
    ctx: click.Context, /, *, sweep: str, metric: str | None, against: str, png: str | None, tenant: str | None
) -> None:
    """Draw a metric of every trial as curves."""
    client = connect(ctx, tenant=tenant)
    found = client.sweeps.get(sweep)
    name = _metric(found, metric)
    axis = Against(against)
    curves = _curves(client, found, name, axis)
    unit, across = ("s", "seconds since the trial started") if axis is Against.TIME else ("", "step")
    if png is not None:
        from gangline.cli.output.drawings.picture import write_picture

        write_picture(Path(png), f"{sweep}: {name}", curves, across=across)
        click.echo(png)
        return
    from gangline.cli.output.drawings.terminal_plot import draw

    drawn = draw(f"{sweep}: {name}", curves, width=terminal.width(), coloured=terminal.colours(), unit=unit)
    for line in drawn:
        click.echo(line)


@command.command("best")
@_sweep
@click.option("-n", "--top", type=click.IntRange(1), metavar="N", help="Show this many, best first.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "csv", "job", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print; 'job' writes the job file of the winner.",
)
@click.option("--png", metavar="FILE", help="Write a picture of the Pareto front instead.")
@click.option("--tenant", metavar="NAME", help="Act for this tenant.")  # -n is how many to show
@click.pass_context
def best(
    ctx: click.Context, /, *, sweep: str, top: int | None, output: str, png: str | None, tenant: str | None
) -> None:
    """Show the best trial, the best N, or those that no other beats where there are several objectives."""
    found = connect(ctx, tenant=tenant).sweeps.get(sweep)
    if png is not None:
        if not found.spec.other_objectives:
            raise InvalidInputError("there is one objective and no front", field="--png", expected="two objectives")
        from gangline.cli.output.drawings.picture import write_front

        write_front(Path(png), found)
        click.echo(png)
        return
    trials = best_trials(found, top)
    if output == "job":
        click.echo(yaml_text(job_to_plain(winner_to_job(found, trials[0]))))
    elif output in (Output.JSON, Output.YAML):
        print_documents(trials, output)
    else:
        print_rows(*trial_rows(found, trials), as_csv=output == "csv")


@command.command("history")
@_sweep
@_csv
@_png
@tenant_option
@click.pass_context
def show_history(ctx: click.Context, /, *, sweep: str, as_csv: bool, png: str | None, tenant: str | None) -> None:
    """Show how the best result became better, trial by trial."""
    found = connect(ctx, tenant=tenant).sweeps.get(sweep)
    if png is None:
        print_rows(*history_rows(found), as_csv=as_csv)
        return
    from gangline.cli.output.drawings.picture import write_picture

    write_picture(Path(png), f"{sweep}: {_metric(found, None)}", history_curves(found), across="trials ended")
    click.echo(png)


@command.command("importance")
@_sweep
@_csv
@_png
@tenant_option
@click.pass_context
def show_importance(ctx: click.Context, /, *, sweep: str, as_csv: bool, png: str | None, tenant: str | None) -> None:
    """Show which parameters mattered: the share of the variance of the results that each explains by itself."""
    found = connect(ctx, tenant=tenant).sweeps.get(sweep)
    if not found.importance:
        raise ConflictError(f"the sweep '{sweep}' cannot tell yet: it takes ten results and a parameter that varies")
    if png is None:
        print_rows(*importance_rows(found), as_csv=as_csv)
        return
    from gangline.cli.output.drawings.picture import write_bars

    shares = sorted(found.importance.items(), key=lambda pair: (-pair[1], pair[0]))
    write_bars(Path(png), "share of the variance that it explains", shares)
    click.echo(png)


@command.command("slices")
@_sweep
@click.option("--parameter", metavar="NAME", help="Of this parameter alone.")
@_csv
@_png
@tenant_option
@click.pass_context
def show_slices(
    ctx: click.Context, /, *, sweep: str, parameter: str | None, as_csv: bool, png: str | None, tenant: str | None
) -> None:
    """Show the results by the values of each parameter."""
    found = connect(ctx, tenant=tenant).sweeps.get(sweep)
    rows = slice_rows(found, parameter)
    if png is None:
        print_rows(*rows, as_csv=as_csv)
        return
    from gangline.cli.output.drawings.picture import write_slices

    write_slices(Path(png), _metric(found, None), found, parameter)
    click.echo(png)


@command.command("coordinates")
@_sweep
@_csv
@_png
@tenant_option
@click.pass_context
def show_coordinates(ctx: click.Context, /, *, sweep: str, as_csv: bool, png: str | None, tenant: str | None) -> None:
    """Show trials in parallel coordinates: where each value lies between the least (0) and the greatest (1)."""
    found = connect(ctx, tenant=tenant).sweeps.get(sweep)
    if png is None:
        print_rows(*coordinate_rows(found), as_csv=as_csv)
        return
    from gangline.cli.output.drawings.picture import write_coordinates

    write_coordinates(Path(png), _metric(found, None), found)
    click.echo(png)


@command.command("export")
@_sweep
@tenant_option
@click.pass_context
def export(ctx: click.Context, /, *, sweep: str, tenant: str | None) -> None:
    """Write all trials with their values and results as CSV."""
    found = connect(ctx, tenant=tenant).sweeps.get(sweep)
    print_rows(*trial_rows(found, found.trials), as_csv=True)


def _read(ctx: click.Context, file: str, name: str | None, tenant: str | None) -> SweepSpec:
    """Read the one sweep of a file."""
    sweeps = read_specs(ctx, SWEEP, file, tenant)
    if len(sweeps) > 1:
        raise InvalidInputError(f"the file holds {len(sweeps)} documents", file=file, expected="one sweep")
    spec: SweepSpec = sweeps[0]
    return replace(spec, name=name or spec.name, template=replace(spec.template, name=name or spec.name))


def _metric(sweep: SweepStatus, given: str | None) -> str:
    if given is not None:
        return given
    if sweep.spec.objective is None:
        raise InvalidInputError("the sweep has no objective", field="--metric", expected="the name of a metric")
    return sweep.spec.objective.metric


def _curves(client: Client, sweep: SweepStatus, name: str, against: Against) -> list[Curve]:
    """One curve for each trial: what its lead reported, or else the first replica that reported anything."""
    curves, read = [], list[Metrics]()
    for trial in sweep.trials:
        metrics = client.metrics(trial.job_id, name=name, points=PLOTTED_POINTS)
        read.append(metrics)
        replicas = sorted({metric.replica for metric in metrics})
        lead = [replica for replica in replicas if replica.role == sweep.spec.template.lead_role]
        chosen = (*lead, *replicas)[:1]
        kept = [metric for metric in metrics if metric.replica in chosen]
        curves.append(curve_of(f"{trial.job} {values_text(trial)}", kept, against, trial.started_at))
    tell_of_missing(
        Metrics(
            (metric for metrics in read for metric in metrics),
            total=sum(metrics.total for metrics in read),
            complete=all(metrics.complete for metrics in read),
        )
    )
    return curves


add_commands(command, SWEEP)
