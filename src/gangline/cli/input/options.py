"""Options that several commands share."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import click

from gangline.errors import InvalidInputError
from gangline.model import FINAL_PHASES, WAITING_PHASES, Phase

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
    CSV = "csv"
    ARENA = "arena"
    """The columns of Arena."""


_EXPRESSIONS = ("jsonpath=", "custom-columns=")


class OutputType(click.Choice[str]):
    """The ways of output that a command has; where it prints rows, also kubectl's two that carry an expression."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accept one of them."""
        if "csv" in self.choices and value.startswith(_EXPRESSIONS) and not value.endswith("="):
            return value
        return str(super().convert(value, param, ctx))


def output_option(*choices: Output) -> Callable[[F], F]:
    """Add ``-o``; without choices, all of them but Arena's columns."""
    allowed = choices or tuple(choice for choice in Output if choice is not Output.ARENA)
    more = ", or jsonpath={...}, or custom-columns=NAME:PATH,..." if Output.CSV in allowed else ""
    return click.option(
        "-o",
        "--output",
        type=OutputType([choice.value for choice in allowed]),
        default=allowed[0].value,
        show_default=True,
        help=f"How to print{more}.",
    )


def tenant_option(function: F) -> F:
    """Add ``--tenant``, which kubectl calls a namespace."""
    return click.option(
        "-n", "--namespace", "--tenant", "tenant", metavar="NAME", help="Act for this tenant, kubectl's namespace."
    )(function)


def label_option(function: F) -> F:
    """Add ``-l``: which jobs are meant."""
    return click.option(
        "-l", "--selector", "--label", "labels", metavar="KEY=VALUE", multiple=True, help="Only jobs with this label."
    )(function)


def filter_options(function: F) -> F:
    """Add the conditions of a list of jobs."""
    for option in (
        click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Show at most this many."),
        label_option,
        click.option("--queue", metavar="NAME", help="Only jobs of this queue."),
        click.option("--phase", "phases", metavar="PHASE", multiple=True, help="Only jobs in this phase."),
    ):
        function = option(function)
    return function


def read_phases(words: tuple[str, ...], option: str = "--phase") -> tuple[Phase, ...]:
    """Read phases, repeated or separated by commas, in any case; everyday words may mean several."""
    return tuple(phase for text in words for word in text.split(",") for phase in _phases(word, option))


_EVERYDAY = {
    "pending": WAITING_PHASES,
    "waiting": WAITING_PHASES,
    "running": frozenset({Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING, Phase.STORING, Phase.HALTING}),
    "active": frozenset(Phase) - FINAL_PHASES - {Phase.HALTED},
    "finished": FINAL_PHASES,
    "done": FINAL_PHASES,
    "succeeded": frozenset({Phase.COMPLETED}),
    "success": frozenset({Phase.COMPLETED}),
    "complete": frozenset({Phase.COMPLETED}),
    "error": frozenset({Phase.FAILED}),
    "errored": frozenset({Phase.FAILED}),
    "stopped": frozenset({Phase.CANCELLED}),
    "canceled": frozenset({Phase.CANCELLED}),
    "killed": frozenset({Phase.CANCELLED}),
    "paused": frozenset({Phase.HALTED}),
    "suspended": frozenset({Phase.HALTED}),
}
"""What other tools call phases."""


def _phases(word: str, option: str) -> tuple[Phase, ...]:
    word = word.strip().removeprefix("condition=").removeprefix("jsonpath={.status.phase}=")
    if (everyday := _EVERYDAY.get(word.lower())) is not None:
        return tuple(sorted(everyday))
    try:
        return (Phase(word.upper()),)
    except ValueError as error:
        import difflib

        nearest = difflib.get_close_matches(word.upper(), list(Phase), n=1)
        raise InvalidInputError(
            f"'{word}' is not a phase",
            field=option,
            expected=f"one of {', '.join(Phase)}, or {', '.join(_EVERYDAY)}",
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


def selected_jobs(function: F) -> F:
    """Add the jobs a command is about: by name, by label, or all of them; ``many_jobs.Selection`` reads it."""
    for add in (
        click.option("-y", "--yes", is_flag=True, help="With --all: do not ask."),
        click.option("--all", "everything", is_flag=True, help="All jobs of the tenant."),
        label_option,
        click.argument("jobs", metavar="[JOB]...", nargs=-1, shell_complete=_job_names),
    ):
        function = add(function)
    return function


def _job_names(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Complete the names of jobs on this machine; a completion never starts a service and never fails loudly."""
    from gangline.errors import GanglineError
    from gangline.sdk import Client
    from gangline.sdk.transports.background import address_of, running_process
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
