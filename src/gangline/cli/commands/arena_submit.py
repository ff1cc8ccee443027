"""``gangline submit tf|pytorch|mpi|horovod``: Arena's flags, bound to the table of the dialect."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.commands.submit import Sending, send, sending_options
from gangline.cli.connection import chosen_settings
from gangline.cli.job_sources import file_in
from gangline.dialects import Translation
from gangline.dialects.arena import Option, Takes, Verb, job_from_options, options_of
from gangline.model import Tenant

_OWN_CODE = ("sync-mode", "working-dir")
"""Options that say where the code is; without them a file in the present directory is shipped, as for any job."""


def arena_command(verb: Verb) -> click.Command:
    """Build the command of a verb."""
    options = options_of(verb)

    def callback(words: tuple[str, ...], **values: object) -> int:
        ctx = click.get_current_context()
        given = {option.name: values.pop(_parameter(option)) for option in options}
        job = _job(verb, {name: value for name, value in given.items() if _is_given(value)}, words)
        return send(ctx, (_for_tenant(ctx, job, values.pop("tenant")),), Sending(**values))  # type: ignore[arg-type]  # click checked

    function: Callable[..., int] = sending_options(callback)
    for option in reversed(options):
        function = _bound(option)(function)
    words = click.argument("words", metavar="COMMAND...", nargs=-1, type=click.UNPROCESSED)
    summary = f"Submit a job with Arena's flags ({verb}); a command in one pair of quotes runs in a shell."
    settings = {"allow_interspersed_args": False}
    return click.command(f"submit {verb}", help=summary, context_settings=settings)(words(function))


def _bound(option: Option) -> Callable[[Callable[..., int]], Callable[..., int]]:
    names = [f"--{name}" for name in (option.name, *option.old_names)]
    if option.short:
        names.insert(0, f"-{option.short}")
    return click.option(
        _parameter(option),
        *names,
        help=f"{option.help[0].upper()}{option.help[1:]}.",
        # None, not False: an option that is expressly no flag may leave out its value, and reads -1 as an option.
        is_flag=True if option.takes is Takes.FLAG else None,
        multiple=option.takes is Takes.MANY,
        type=click.INT if option.takes is Takes.WHOLE else None,
        metavar=None if option.takes in (Takes.FLAG, Takes.WHOLE) else "TEXT",
    )


def _is_given(value: object) -> bool:
    """Whether an option was on the command line; 0 is a value, though it equals False."""
    return value is not None and value is not False and value != ()


def _parameter(option: Option) -> str:
    return f"arena_{option.name.replace('-', '_')}"


def _job(verb: Verb, given: dict[str, object], words: Sequence[str]) -> Translation:
    job = job_from_options(verb, given, words, suffix=os.urandom(2).hex())
    file = file_in(tuple(word for text in words for word in text.split()))
    if file is None or any(name in given for name in _OWN_CODE):
        return job
    terminal.say(f"shipping the present directory, because '{file}' is in it (--working-dir runs it elsewhere)")
    return replace(job, spec=replace(job.spec, code=str(Path.cwd())))


def _for_tenant(ctx: click.Context, job: Translation, tenant: object) -> Translation:
    chosen = tenant or (ctx.find_root().obj or {}).get("tenant") or chosen_settings(ctx).tenant
    return replace(job, spec=replace(job.spec, tenant=Tenant(str(chosen))))
