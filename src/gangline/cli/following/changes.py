"""Printing changes as they come: one row or document each, so that it works in a terminal, a file and a pipe."""

from collections.abc import Iterable

import click

from gangline.cli import terminal
from gangline.cli.input.options import Output
from gangline.cli.output import table
from gangline.cli.output.documents import print_expression, yaml_text
from gangline.cli.output.job_table import HEADINGS, WIDE_HEADINGS, row
from gangline.model import Job, JobId
from gangline.sdk import Change
from gangline.wire import plain

_TENANT_WIDTH = 16
_WIDTHS = (24, 11, 8, 9)
"""Columns of a table whose rows are not known yet."""


def print_changes(changes: Iterable[Change], output: str, *, tenants: bool = False) -> None:
    """Print every change until there are no more; one that shows nothing new is passed over.

    ``tenants`` adds to a table whose the jobs are.
    """
    jobs: dict[JobId, Job] = {}
    shown: dict[JobId, object] = {}
    if output in (Output.TABLE, Output.WIDE):
        headings = WIDE_HEADINGS if output == Output.WIDE else HEADINGS
        _print_row(headings, ("TENANT",) if tenants else ())
    for change in changes:
        if change.job is None:
            job = jobs.pop(change.job_id, None)
            shown.pop(change.job_id, None)
            whose = (job.spec.tenant if job is not None else "-",) if tenants else ()
            _print_gone(job.name if job is not None else change.job_id, output, whose)
        else:
            jobs[change.job_id] = change.job
            if shown.get(change.job_id) != (news := _news(change.job, output)):
                shown[change.job_id] = news
                _print_job(change.job, output, (change.job.spec.tenant,) if tenants else ())


def _news(job: Job, output: str) -> object:
    """What is printed of a job, but for how long ago things were."""
    if output == Output.NAME:
        return job.name
    return row(job, job.created_at, wide=output == Output.WIDE) if output in (Output.TABLE, Output.WIDE) else job


def _print_job(job: Job, output: str, whose: tuple[str, ...]) -> None:
    if output == Output.JSON:
        import json

        click.echo(json.dumps(plain(job), ensure_ascii=False))
    elif output == Output.YAML:
        click.echo(f"---\n{yaml_text(job)}")
    elif output == Output.NAME:
        click.echo(job.name)
    elif output not in (Output.TABLE, Output.WIDE):
        print_expression([job], output, single=True)
    else:
        _print_row(row(job, terminal.now(), wide=output == Output.WIDE), whose)


def _print_gone(name: str, output: str, whose: tuple[str, ...]) -> None:
    if output in (Output.TABLE, Output.WIDE):
        _print_row((name, "-", "-", "-", "deleted"), whose)
    else:
        terminal.say(f"{name} is deleted")


def _print_row(cells: tuple[str, ...], whose: tuple[str, ...] = ()) -> None:
    widths = (*((_TENANT_WIDTH,) if whose else ()), *_WIDTHS)
    cells = (*whose, *cells)
    padding = tuple(" " * width for width in widths) + ("",) * (len(cells) - len(widths))
    click.echo(table.lines(padding, [cells], width=terminal.width())[1])
