"""``gangline sweep``."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from gangline.cli import table, terminal, words
from gangline.cli.connection import chosen_settings, connect, spoken
from gangline.cli.curves import PLOTTED_POINTS, Against, Curve, curve_of
from gangline.cli.documents import json_text, yaml_text
from gangline.cli.job_sources import on_this_machine
from gangline.cli.metric_table import tell_of_missing
from gangline.cli.options import Output, complete_files, output_option, tenant_option
from gangline.cli.sweep_following import finish_sweep, follow_sweep
from gangline.cli.sweep_table import (
    SWEEP_HEADINGS,
    print_trials,
    summary_text,
    sweep_row,
    values_text,
)
from gangline.dialects.native import sweep_to_plain
from gangline.errors import InvalidInputError
from gangline.model import DEFAULT_TENANT, Tenant
from gangline.model.sweep import SweepSpec
from gangline.sdk import Client, Metrics, SweepStatus
from gangline.sdk.loading import load_sweep, parse_sweep

_documents = output_option(Output.TABLE, Output.JSON, Output.YAML)
_sweep = click.argument("sweep", metavar="NAME")


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
        click.echo(yaml_text(sweep_to_plain(spec)))
        return 0
    client = connect(ctx, tenant=spec.tenant)
    submitted = client.sweeps.submit(spec)
    click.echo(submitted.name)
    if following:
        return follow_sweep(client, submitted.name)
    if waiting:
        return finish_sweep(client.sweeps.wait(submitted.name))
    terminal.say(f"follow it with: {spoken(ctx, 'sweep get -w', submitted.name, tenant=spec.tenant)}")
    return 0


@command.command("list")
@_documents
@tenant_option
@click.pass_context
def list_(ctx: click.Context, output: str, tenant: str | None) -> None:
    """List sweeps, newest first, each with its best trial so far."""
    found = connect(ctx, tenant=tenant).sweeps.list()
    if output != Output.TABLE:
        _print_documents(found, output)
    elif not found:
        terminal.say("no sweeps")
    else:
        rows = [sweep_row(sweep, terminal.now()) for sweep in found]
        for line in table.lines(SWEEP_HEADINGS, rows, width=terminal.width()):
            click.echo(line)


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
        _print_documents(found, output)
    else:
        print_trials(found)
        terminal.say(summary_text(found))
    return 0


@command.command("stop")
@_sweep
@tenant_option
@click.pass_context
def stop(ctx: click.Context, sweep: str, tenant: str | None) -> None:
    """Start no further trial and cancel those that run; results are kept."""
    stopped = connect(ctx, tenant=tenant).sweeps.stop(sweep)
    terminal.say(f"{stopped.name} is {stopped.state}")


@command.command("delete")
@_sweep
@click.option("--no-wait", is_flag=True, help="Return at once; it disappears in the background.")
@click.option("--timeout", metavar="DURATION", help="Wait no longer than this, with exit code 124.")
@tenant_option
@click.pass_context
def delete(ctx: click.Context, /, *, sweep: str, no_wait: bool, timeout: str | None, tenant: str | None) -> None:
    """Delete a sweep and the jobs of all its trials, stopping them first if they run."""
    seconds = None if timeout is None else words.read_duration(timeout, "--timeout")
    client = connect(ctx, tenant=tenant)
    deleted = client.sweeps.delete(sweep, wait=not no_wait, timeout=seconds)
    if not no_wait:
        for trial in deleted.trials:
            client.wait_until_gone(trial.job_id, timeout=seconds)
    terminal.say(f"{sweep} is being deleted" if no_wait else f"{sweep} is deleted")


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
        from gangline.cli.picture import write_picture

        write_picture(Path(png), f"{sweep}: {name}", curves, across=across)
        click.echo(png)
        return
    from gangline.cli.terminal_plot import draw

    drawn = draw(f"{sweep}: {name}", curves, width=terminal.width(), coloured=terminal.colours(), unit=unit)
    for line in drawn:
        click.echo(line)


def _read(ctx: click.Context, file: str, name: str | None, tenant: str | None) -> SweepSpec:
    """Read the file and let options overrule what they may."""
    settings, chosen = chosen_settings(ctx), ctx.find_root().obj or {}
    if file == "-":
        spec = parse_sweep(sys.stdin.read(), file="standard input", directory=Path.cwd(), sizes=settings.sizes)
    else:
        spec = load_sweep(file, sizes=settings.sizes)
    template = spec.template
    tenant = tenant or chosen.get("tenant")
    if tenant or template.tenant == DEFAULT_TENANT:
        template = replace(template, tenant=Tenant(tenant or settings.tenant))
    if not (settings.context or chosen.get("server")):
        (template,) = on_this_machine([template])
    return replace(spec, name=name or spec.name, template=replace(template, name=name or spec.name))


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


def _print_documents(value: object, output: str) -> None:
    click.echo(json_text(value) if output == Output.JSON else yaml_text(value))
