"""Following a job to its end: its output as it comes, its phases, and at last its exit code."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from gangline.cli import terminal
from gangline.cli.connection.client import spoken
from gangline.cli.output.last_lines import tell_last_lines
from gangline.cli.output.output_lines import LinePrinter, needs_prefix
from gangline.errors import NotFoundError, UnreachableError
from gangline.model import FINAL_PHASES, Job, Phase
from gangline.model.wording import reason_text, transfer_text
from gangline.sdk import Client

_FAILURE = 1
_TELLING_SECONDS = 5.0
"""How long the last phases may take to be told after the last line of output."""
_TRANSFER_SECONDS = 5.0
"""How often it is said how far data is."""


def follow(client: Client, job: Job) -> int:
    """Show a job until it is finished or halted; return its own exit code."""
    with _going_on(job):
        if sys.stdout.isatty() and terminal.colours():
            # rich is imported only where somebody looks at it.
            from gangline.cli.following.live_job import follow_live

            follow_live(client, job)
        else:
            _follow_plainly(client, job)
        return exit_code_of_job(_end_of(client, job))


def finish(client: Client, job: Job) -> int:
    """Wait for the end of a job, tell it, and return the job's own exit code."""
    with _going_on(job):
        ended = _end_of(client, job)
        if ended is not None:
            tell_last_lines(client, ended)
        return exit_code_of_job(ended)


@contextmanager
def _going_on(job: Job) -> Iterator[None]:
    """Tell a user who leaves that the job does not."""
    try:
        yield
    except KeyboardInterrupt:
        ctx = click.get_current_context()
        follows, ends = (spoken(ctx, verb, job.name, tenant=job.spec.tenant) for verb in ("logs -f", "cancel"))
        terminal.say(f"{job.name} goes on; '{follows}' follows it, '{ends}' ends it")
        raise


def _end_of(client: Client, job: Job) -> Job | None:
    """Wait for the end and tell it; None if the job was deleted meanwhile."""
    try:
        ended = client.wait(job.id, phases=FINAL_PHASES | {Phase.HALTED})
    except NotFoundError:
        terminal.say(f"{job.name} is deleted")
        return None
    terminal.say(f"{ended.name} is {ended.phase} ({reason_text(ended)})")
    return ended


def exit_code_of_job(job: Job | None) -> int:
    """Return what a program that ran the job itself would exit with; one that rests or is gone has not succeeded."""
    if job is None:
        return _FAILURE
    if job.phase is Phase.COMPLETED:
        return 0
    return job.exit_code or _FAILURE


def _follow_plainly(client: Client, job: Job) -> None:
    telling = threading.Thread(target=_tell_phases, args=(client, job), daemon=True)
    telling.start()
    printer = LinePrinter(prefixed=needs_prefix(job), flush=True)
    for line in client.logs(job.id, follow=True):
        printer.print(line)
    telling.join(_TELLING_SECONDS)


def _tell_phases(client: Client, job: Job) -> None:
    """Tell of every phase as the job enters it. The stream of output tells of a service that went away."""
    told, transfers = 0, 0.0
    with suppress(UnreachableError, NotFoundError):
        for change in client.watch(job.id):
            if change.job is None:
                return
            for entry in change.job.history[told:]:
                if entry.phase not in FINAL_PHASES:
                    terminal.say(f"{job.name} is {entry.phase}")
            told = len(change.job.history)
            if change.job.transfer is not None and time.monotonic() >= transfers:
                transfers = time.monotonic() + _TRANSFER_SECONDS
                terminal.say(f"{job.name} is {change.job.phase}: {transfer_text(change.job.transfer)}")
            if change.job.finished or change.job.phase is Phase.HALTED:
                return
