"""``gangline what-if``."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.job_sources import jobs_from_files, kinds_in
from gangline.cli.input.options import Output, job_files_option, output_option
from gangline.cli.kind_commands import read_specs
from gangline.cli.output import formatting, table
from gangline.cli.output.documents import json_text
from gangline.cli.output.speed_table import CURVE_COLUMNS, curve_rows
from gangline.cli.simulation_state import moment_text, state_of
from gangline.errors import InvalidInputError
from gangline.forecast.changes import ChangedJobs, changed_queues, removed_nodes, size_ranges
from gangline.kinds.registry import kind_named
from gangline.model import Job, JobId, JobSpec, Timestamp
from gangline.serving import first_replicas
from gangline.settings import Settings
from gangline.wire import iso

if TYPE_CHECKING:
    from gangline.forecast.course import State
    from gangline.forecast.whatif import Answer, Effect, Prospect


_SERVICE = "Service"


@click.command("what-if")
@job_files_option
@click.option(
    "--add-nodes",
    "described",
    metavar="NODES",
    multiple=True,
    help="Machines not yet bought: COUNTxGPUS[xTYPE], such as 8x8xh200; repeatable.",
)
@click.option(
    "--remove-nodes",
    "removed",
    metavar="NAME[,NAME]",
    multiple=True,
    help="Nodes to do without: jobs that run there are stopped and go on elsewhere; repeatable.",
)
@click.option(
    "--quota",
    "quotas",
    metavar="QUEUE=FIELD:VALUE",
    multiple=True,
    help="A queue with another number, such as research=guarantee:gpu=8 or research=limit:none; repeatable.",
)
@click.option(
    "--priority",
    "priorities",
    metavar="JOB=PRIORITY",
    multiple=True,
    help="A job of --file, or one that is there, with another priority; repeatable.",
)
@click.option(
    "--replicas",
    "sizes",
    metavar="JOB=[ROLE:]COUNT",
    multiple=True,
    help="A job of --file, or one that waits, with other numbers of replicas; JOB=1..16 prints how fast a job with "
    "'replicas: auto' should be with each; repeatable.",
)
@output_option(Output.TABLE, Output.JSON)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    files: tuple[str, ...],
    described: tuple[str, ...],
    removed: tuple[str, ...],
    quotas: tuple[str, ...],
    priorities: tuple[str, ...],
    sizes: tuple[str, ...],
    output: str,
) -> None:
    """Say what would happen if a job were submitted, or jobs, nodes or queues were others; nothing is changed.

    Of a service, what would become of its fewest replicas.

    \b
    gangline what-if -f job.yaml
    gangline what-if -f job.yaml --add-nodes 8x8xh200
    gangline what-if -f service.yaml
    gangline what-if -f job.yaml --replicas train=4 --priority train=high
    gangline what-if --quota research=guarantee:gpu=16
    gangline what-if --remove-nodes node-3,node-4
    gangline what-if --replicas train=1..16
    """
    if not any((files, described, removed, quotas, priorities, sizes)):
        raise click.UsageError(
            "give a job with --file, or a change: --add-nodes, --remove-nodes, --quota, --priority or --replicas", ctx
        )
    ranges, sizes = size_ranges(sizes)
    if ranges:
        client = connect(ctx)
        for name, counts in ranges:
            _print_curve(client.get(name), counts, output)
    if not any((files, described, removed, quotas, priorities, sizes)):
        return
    # The scheduler brings NumPy with it, which most commands do not need.
    from gangline.compose.plugins import chosen_policies
    from gangline.forecast.machines import parse_nodes
    from gangline.forecast.whatif import what_if

    settings = Settings.load()
    state = state_of(connect(ctx))
    changed = ChangedJobs(_specs(ctx, files, settings), state.jobs)
    changed.prioritise(priorities)
    changed.resize(sizes)
    answer = what_if(
        state,
        specs=list(changed.specs.values()),
        more_nodes=parse_nodes(*described),
        fewer_nodes=removed_nodes(state.nodes, removed),
        queues=changed_queues(state.queues, quotas),
        jobs=list(changed.jobs.values()),
        policies=chosen_policies(settings.scheduling),
    )
    if output == Output.JSON:
        click.echo(json_text(_document(answer, state)))
    else:
        _print(answer, state)


def _specs(ctx: click.Context, files: tuple[str, ...], settings: Settings) -> list[JobSpec]:
    """The jobs of files, those that the replicas of services would be among them."""
    services = tuple(file for file in files if kinds_in(file) == {_SERVICE})
    jobs = jobs_from_files(tuple(file for file in files if file not in services), (), {}, settings)
    kind = kind_named(_SERVICE.lower())
    asked = [spec for file in services for spec in read_specs(ctx, kind, file, None)]
    return [*(job.spec for job in jobs), *(replica for spec in asked for replica in first_replicas(spec))]


def _print_curve(job: Job, counts: range, output: str) -> None:
    """How fast a job should be with each number of replicas, by what was measured of it."""
    rows = curve_rows(job, counts)
    if not rows:
        raise InvalidInputError(
            f"nothing was measured of '{job.name}' yet",
            field="--replicas",
            expected="a job with 'policy: {replicas: auto}' that reports its progress",
        )
    if output == Output.JSON:
        click.echo(
            json_text([dict(zip(("replicas", "speed", "between", "measured"), row, strict=True)) for row in rows])
        )
        return
    for line in table.lines(CURVE_COLUMNS, rows, width=terminal.width()):
        click.echo(line)


def _print(answer: "Answer", state: "State") -> None:
    names = _names(answer, state)
    for prospect in answer.prospects:
        _print_prospect(prospect, state, names)
    for each in answer.stops:
        stop = each.stop
        what = "would be stopped" if stop.whole else "would lose surplus replicas"
        reason = f" for {names[stop.beneficiary]}" if stop.beneficiary else ""
        again = f", and start again {moment_text(each.resumes_at, state.now)}" if each.resumes_at is not None else ""
        click.echo(f"{names[stop.job_id]} {what} {moment_text(stop.at, state.now)}{reason}{again}.")
    rows = [
        (
            effect.job.name,
            moment_text(effect.starts_at, state.now),
            moment_text(effect.would_start_at, state.now),
            _delay_text(effect),
        )
        for effect in answer.effects
    ]
    if rows:
        for line in table.lines(("WAITING", "STARTS", "WOULD START", "CHANGE"), rows, width=terminal.width()):
            click.echo(line)
    elif not answer.stops:
        click.echo("No other job would notice.")
    if answer.exhausted:
        terminal.say("note: many jobs wait; what lies further ahead was not simulated")


def _delay_text(effect: "Effect") -> str:
    """By how much a job would be delayed, or be earlier."""
    seconds = effect.delay_seconds
    if seconds is None:
        return "would start" if effect.starts_at is None else "would not start"
    return f"{formatting.duration(abs(seconds))} {'later' if seconds > 0 else 'earlier'}"


def _print_prospect(prospect: "Prospect", state: "State", names: Mapping[JobId, str]) -> None:
    name, launch = prospect.job.name, prospect.launch
    if launch is None:
        click.echo(f"{name} would not start.")
    else:
        places = Counter(launch.placement.values())
        nodes = ", ".join(f"{node} ({count})" if count > 1 else node for node, count in sorted(places.items()))
        click.echo(f"{name} would start {moment_text(launch.at, state.now)} on {nodes}.")
    if prospect.explanation is not None:
        for sentence in prospect.explanation.naming(names).words():
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
                "sentences": () if prospect.explanation is None else prospect.explanation.naming(names).words(),
            }
            for prospect in answer.prospects
        ],
        "stops": [
            {
                "name": names[each.stop.job_id],
                "at": iso(each.stop.at),
                "whole": each.stop.whole,
                "for": None if each.stop.beneficiary is None else names[each.stop.beneficiary],
                "resumes_at": _moment(each.resumes_at),
            }
            for each in answer.stops
        ],
        "effects": [
            {
                "name": effect.job.name,
                "starts_at": _moment(effect.starts_at),
                "would_start_at": _moment(effect.would_start_at),
                "delay_seconds": effect.delay_seconds,
            }
            for effect in answer.effects
        ],
        "complete": not answer.exhausted,
    }


def _names(answer: "Answer", state: "State") -> dict[JobId, str]:
    return {job.id: job.name for job in (*state.jobs, *(prospect.job for prospect in answer.prospects))}
