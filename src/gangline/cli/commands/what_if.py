"""``gangline what-if``."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from gangline.cli import table, terminal
from gangline.cli.connection import connect
from gangline.cli.documents import json_text
from gangline.cli.job_sources import jobs_from_files
from gangline.cli.options import Output, job_files_option, output_option
from gangline.cli.outlook import moment_text, state_of
from gangline.model import JobId, Timestamp
from gangline.settings import Settings
from gangline.wire import iso

if TYPE_CHECKING:
    from gangline.simulator import Answer, Prospect, State


@click.command("what-if")
@job_files_option
@click.option(
    "--add-nodes",
    "described",
    metavar="NODES",
    multiple=True,
    help="Machines not yet bought: COUNTxGPUS[xTYPE], such as 8x8xh200; repeatable.",
)
@output_option(Output.TABLE, Output.JSON)
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], described: tuple[str, ...], output: str) -> None:
    """Say what would happen if a job were submitted or nodes were added; nothing is.

    \b
    gangline what-if -f job.yaml
    gangline what-if -f job.yaml --add-nodes 8x8xh200
    """
    if not files and not described:
        raise click.UsageError("give a job with --file, or nodes with --add-nodes", ctx)
    # The simulator brings the whole service with it, which most commands do not need.
    from gangline.scheduling import policies_from
    from gangline.simulator import parse_nodes, what_if

    settings = Settings.load()
    jobs = jobs_from_files(files, (), {}, settings)
    state = state_of(connect(ctx))
    answer = what_if(
        state,
        specs=[job.spec for job in jobs],
        more_nodes=parse_nodes(*described),
        policies=policies_from(settings.scheduling),
    )
    if output == Output.JSON:
        click.echo(json_text(_document(answer, state)))
    else:
        _print(answer, state)


def _print(answer: "Answer", state: "State") -> None:
    names = _names(answer, state)
    for prospect in answer.prospects:
        _print_prospect(prospect, state, names)
    for stop in answer.stops:
        what = "would be stopped" if stop.whole else "would lose surplus replicas"
        reason = f" for {names[stop.beneficiary]}" if stop.beneficiary else ""
        click.echo(f"{names[stop.job_id]} {what} {moment_text(stop.at, state.now)}{reason}.")
    rows = [
        (effect.job.name, moment_text(effect.starts_at, state.now), moment_text(effect.would_start_at, state.now))
        for effect in answer.effects
    ]
    if rows:
        for line in table.lines(("WAITING", "STARTS", "WOULD START"), rows, width=terminal.width()):
            click.echo(line)
    elif not answer.stops:
        click.echo("No other job would notice.")
    if answer.exhausted:
        terminal.say("note: the line is long; what lies further ahead was not followed")


def _print_prospect(prospect: "Prospect", state: "State", names: Mapping[JobId, str]) -> None:
    name, launch = prospect.job.name, prospect.launch
    if launch is None:
        click.echo(f"{name} would not start.")
    else:
        places = Counter(launch.placement.values())
        nodes = ", ".join(f"{node} ({count})" if count > 1 else node for node, count in sorted(places.items()))
        click.echo(f"{name} would start {moment_text(launch.at, state.now)} on {nodes}.")
    if prospect.explanation is not None:
        for sentence in prospect.explanation.naming(names).sentences():
            click.echo(f"  {sentence}")


def _moment(at: Timestamp | None) -> str | None:
    return None if at is None else iso(at)


def _document(answer: "Answer", state: "State") -> dict[str, object]:
    names = _names(answer, state)
    return {
        "jobs": [
            {
                "name": prospect.job.name,
                "starts_at": _moment(None if prospect.launch is None else prospect.launch.at),
                "placement": {} if prospect.launch is None else prospect.launch.placement,
                "sentences": () if prospect.explanation is None else prospect.explanation.naming(names).sentences(),
            }
            for prospect in answer.prospects
        ],
        "stops": [
            {
                "name": names[stop.job_id],
                "at": iso(stop.at),
                "whole": stop.whole,
                "for": None if stop.beneficiary is None else names[stop.beneficiary],
            }
            for stop in answer.stops
        ],
        "effects": [
            {
                "name": effect.job.name,
                "starts_at": _moment(effect.starts_at),
                "would_start_at": _moment(effect.would_start_at),
            }
            for effect in answer.effects
        ],
        "complete": not answer.exhausted,
    }


def _names(answer: "Answer", state: "State") -> dict[JobId, str]:
    return {job.id: job.name for job in (*state.jobs, *(prospect.job for prospect in answer.prospects))}
