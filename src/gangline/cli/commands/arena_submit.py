"""``gangline submit tf|pytorch|mpi|horovod``: Arena's flags, bound to the table of the dialect."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.commands.submit import Sending, send, sending_options
from gangline.cli.connection.client import chosen_settings
from gangline.cli.input.arena_options import bound, is_given, parameter_of, refusing
from gangline.cli.input.job_sources import file_in
from gangline.dialects import Translation
from gangline.dialects.arena import REFUSED, Verb, job_from_options, options_of
from gangline.model import Tenant

_OWN_CODE = ("sync-mode", "working-dir")
"""Options that say where the code is; without them a file in the current directory is shipped, as for any job."""


def arena_command(verb: Verb) -> click.Command:
    """Build the command of a verb."""
    options = options_of(verb)

    def callback(words: tuple[str, ...], **values: object) -> int:
        ctx = click.get_current_context()
        given = {option.name: values.pop(parameter_of(option)) for option in options}
        job = _job(verb, {name: value for name, value in given.items() if is_given(value)}, words)
        return send(ctx, (_for_tenant(ctx, job, values.pop("tenant")),), Sending(**values))  # type: ignore[arg-type]  # click checked

    function: Callable[..., int] = sending_options(callback)
    for option in reversed(options):
        function = bound(option)(function)
    for flag in REFUSED:
        if verb in flag.verbs:
            function = refusing(flag)(function)
    words = click.argument("words", metavar="COMMAND...", nargs=-1, type=click.UNPROCESSED)
    summary = f"Submit a job with Arena's flags ({verb}); a command in one pair of quotes runs in a shell."
    settings = {"allow_interspersed_args": False}
    return click.command(f"submit {verb}", help=summary, context_settings=settings)(words(function))


def _job(verb: Verb, given: dict[str, object], words: Sequence[str]) -> Translation:
    job = job_from_options(verb, given, words, suffix=os.urandom(2).hex())
    file = file_in(tuple(word for text in words for word in text.split()))
    if file is None or any(name in given for name in _OWN_CODE):
        return job
    terminal.say(f"shipping the current directory, because '{file}' is in it (--working-dir runs it elsewhere)")
    return replace(job, spec=replace(job.spec, code=str(Path.cwd())))


def _for_tenant(ctx: click.Context, job: Translation, tenant: object) -> Translation:
    chosen = tenant or (ctx.find_root().obj or {}).get("tenant") or chosen_settings(ctx).tenant
    return replace(job, spec=replace(job.spec, tenant=Tenant(str(chosen))))
