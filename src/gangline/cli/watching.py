"""Printing changes as they come: one row or document each, so that it works in a terminal, a file and a pipe."""

from collections.abc import Iterable

import click

from gangline.cli import table, terminal
from gangline.cli.documents import yaml_text
from gangline.cli.jobs import HEADINGS, WIDE_HEADINGS, row
from gangline.cli.options import Output
from gangline.model import Job, JobId
from gangline.sdk import Change
from gangline.wire import plain

_WIDTHS = (24, 11, 8, 9)
"""Columns of a table whose rows are not known yet."""


def print_changes(changes: Iterable[Change], output: str) -> None:
    """Print every change until there are no more; one that shows nothing new is passed over."""
    names: dict[JobId, str] = {}
    shown: dict[JobId, object] = {}
    if output in (Output.TABLE, Output.WIDE):
        _print_row(WIDE_HEADINGS if output == Output.WIDE else HEADINGS)
    for change in changes:
        if change.job is None:
            name = names.pop(change.job_id, change.job_id)
            shown.pop(change.job_id, None)
            _print_gone(name, output)
        else:
            names[change.job_id] = change.job.name
            if shown.get(change.job_id) != (news := _news(change.job, output)):
                shown[change.job_id] = news
                _print_job(change.job, output)


def _news(job: Job, output: str) -> object:
    """What is printed of a job, but for how long ago things were."""
    if output == Output.NAME:
        return job.name
    return row(job, job.created_at, wide=output == Output.WIDE) if output in (Output.TABLE, Output.WIDE) else job


def _print_job(job: Job, output: str) -> None:
    if output == Output.JSON:
        import json

        click.echo(json.dumps(plain(job), ensure_ascii=False))
    elif output == Output.YAML:
        click.echo(f"---\n{yaml_text(job)}")
    elif output == Output.NAME:
        click.echo(job.name)
    else:
        _print_row(row(job, terminal.now(), wide=output == Output.WIDE))


def _print_gone(name: str, output: str) -> None:
    if output in (Output.TABLE, Output.WIDE):
        _print_row((name, "-", "-", "-", "deleted"))
    else:
        terminal.say(f"{name} is deleted")


def _print_row(cells: tuple[str, ...]) -> None:
    padding = tuple(" " * width for width in _WIDTHS) + ("",) * (len(cells) - len(_WIDTHS))
    click.echo(table.lines(padding, [cells], width=terminal.width())[1])
