"""The same request for several jobs: what one of them does not allow keeps nothing from the others."""

import sys
from collections.abc import Callable, Collection, Iterable

import click

from gangline.cli import terminal
from gangline.cli.output.formatting import counted
from gangline.dialects.native import pairs
from gangline.errors import ConflictError, NotFoundError
from gangline.model import Job, Phase
from gangline.sdk import Client


def chosen_jobs(
    ctx: click.Context, client: Client, jobs: tuple[str, ...], phases: Collection[Phase] = ()
) -> tuple[str, ...]:
    """Return the jobs that ``selected_jobs`` means: those named, else those with the labels, else all in the phases."""
    labels, everything, yes = (ctx.params[name] for name in ("labels", "everything", "yes"))
    if sum(map(bool, (jobs, labels, everything))) != 1:
        raise click.UsageError("name jobs, or choose them with -l KEY=VALUE, or say --all", ctx)
    if jobs:
        return jobs
    found = client.list(labels=pairs(labels, "--label"), phases=phases, limit=None)
    if not found:
        terminal.say("no such jobs")
    elif everything and not yes and sys.stdin.isatty():
        verb = ctx.command.name
        click.confirm(f"{verb} {counted(len(found), 'job')} of tenant '{client.tenant}'?", abort=True, err=True)
    return tuple(job.id for job in found)


def ask_for_each(names: Iterable[str], ask: Callable[[str], Job], tell: Callable[[Job], None]) -> None:
    """Ask for each job, tell of those it worked for, then of the refusals; raises the last of them."""
    refused: list[ConflictError | NotFoundError] = []
    for name in names:
        try:
            tell(ask(name))
        except (ConflictError, NotFoundError) as error:
            refused.append(error)
    for other in refused[:-1]:
        terminal.say(f"error: {other}")
    if refused:
        raise refused[-1]


def tell_phase(job: Job) -> None:
    """Say what a request has made of a job."""
    terminal.say(f"{job.name} is {job.phase}")
