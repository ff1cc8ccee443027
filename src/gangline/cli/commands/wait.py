"""``gangline wait``."""

import time

import click

from gangline.cli import terminal, words
from gangline.cli.connection import connect
from gangline.cli.following import exit_code_of_job
from gangline.cli.jobs import reason_text
from gangline.cli.last_lines import tell_last_lines
from gangline.cli.options import jobs_argument, read_phases, tenant_option
from gangline.model import FINAL_PHASES, Phase


@click.command("wait")
@jobs_argument
@click.option("--for", "phases", metavar="PHASE", multiple=True, help="Wait for this phase instead of the end.")
@click.option("--timeout", metavar="DURATION", help="Give up after this time, with exit code 124.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context, jobs: tuple[str, ...], phases: tuple[str, ...], timeout: str | None, tenant: str | None
) -> int:
    """Wait until jobs have reached a phase.

    Without --for it waits for their end and exits with the first exit code that is not 0.
    """
    wanted = read_phases(phases, "--for")
    end = None if timeout is None else time.monotonic() + words.read_duration(timeout, "--timeout")
    client = connect(ctx, tenant=tenant)
    codes = []
    for job in jobs:
        left = None if end is None else max(0.0, end - time.monotonic())
        found = client.wait(job, phases=wanted or FINAL_PHASES, timeout=left)
        failed = found.phase is Phase.FAILED
        terminal.say(f"{found.name} is {found.phase}" + (f" ({reason_text(found)})" if failed else ""))
        tell_last_lines(client, found)
        codes.append(0 if wanted else exit_code_of_job(found))
    return next((code for code in codes if code), 0)
