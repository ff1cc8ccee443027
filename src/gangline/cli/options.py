"""Options that several commands share."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import click

from gangline.errors import InvalidInputError
from gangline.model import Phase

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., object])


class Output(StrEnum):
    """How data is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    ARENA = "arena"
    """The columns of Arena."""


def output_option(*choices: Output) -> Callable[[F], F]:
    """Add ``-o``; without choices, all of them but Arena's columns."""
    allowed = choices or tuple(choice for choice in Output if choice is not Output.ARENA)
    return click.option(
        "-o",
        "--output",
        type=click.Choice([choice.value for choice in allowed]),
        default=allowed[0].value,
        show_default=True,
        help="How to print.",
    )


def tenant_option(function: F) -> F:
    """Add ``--tenant``."""
    return click.option("--tenant", metavar="NAME", help="Act for this tenant.")(function)


def filter_options(function: F) -> F:
    """Add the conditions of a list of jobs."""
    for option in (
        click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Show at most so many."),
        click.option("-l", "--label", "labels", metavar="KEY=VALUE", multiple=True, help="Only jobs with this label."),
        click.option("--queue", metavar="NAME", help="Only jobs of this queue."),
        click.option("--phase", "phases", metavar="PHASE", multiple=True, help="Only jobs in this phase."),
    ):
        function = option(function)
    return function


def read_phases(words: tuple[str, ...], option: str = "--phase") -> tuple[Phase, ...]:
    """Read phases, repeated or separated by commas, in any case."""
    return tuple(_phase(word, option) for text in words for word in text.split(","))


def _phase(word: str, option: str) -> Phase:
    try:
        return Phase(word.strip().upper())
    except ValueError as error:
        import difflib

        nearest = difflib.get_close_matches(word.upper(), list(Phase), n=1)
        raise InvalidInputError(
            f"'{word}' is no phase",
            field=option,
            expected=f"one of {', '.join(Phase)}",
            suggestion=nearest[0] if nearest else None,
        ) from error


def complete_files(ctx: click.Context, parameter: click.Parameter, typed: str) -> "list[CompletionItem]":
    """Have the shell complete the name of a file or a directory."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(typed, type="file")]


def job_files_option(function: F) -> F:
    """Add ``-f``: where jobs are read from."""
    return click.option(
        "-f",
        "--file",
        "files",
        metavar="FILE",
        multiple=True,
        help="Read jobs from a file, or from standard input with '-'; repeatable.",
        shell_complete=complete_files,
    )(function)


def job_argument(function: F) -> F:
    """Add the job a command is about."""
    return click.argument("job", metavar="JOB", shell_complete=_job_names)(function)


def jobs_argument(function: F) -> F:
    """Add the jobs a command is about."""
    return click.argument("jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=_job_names)(function)


def _job_names(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Complete the names of jobs on this machine; a completion never starts a service and never fails loudly."""
    from gangline.errors import GanglineError
    from gangline.sdk import Client
    from gangline.sdk.background import address_of, running_process
    from gangline.settings import Settings

    try:
        settings, chosen = Settings.load(), ctx.find_root().params
        context = settings.context if chosen.get("context") is None else chosen["context"]
        if context or chosen.get("server") or running_process(settings) is None:
            return []
        tenant = ctx.params.get("tenant") or chosen.get("tenant")
        client = Client(address_of(settings), tenant=tenant, settings=settings)
        return [job.name for job in client.list() if job.name.startswith(typed)]
    except GanglineError:
        return []
