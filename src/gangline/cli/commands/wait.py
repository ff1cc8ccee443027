"""``gangline wait``."""

import time

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.following.job import exit_code_of_job
from gangline.cli.following.notice import told
from gangline.cli.input.options import jobs_argument, read_phases, tenant_option
from gangline.cli.output import formatting
from gangline.cli.output.last_lines import tell_last_lines
from gangline.model import FINAL_PHASES, Phase
from gangline.model.wording import reason_text


@click.command("wait")
@jobs_argument
@click.option("--for", "phases", metavar="PHASE", multiple=True, help="Wait for this phase instead of the end.")
@click.option("--notify", is_flag=True, help="A bell and a desktop notice at the end.")
@click.option("--timeout", metavar="DURATION", help="Give up after this time, with exit code 124.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    jobs: tuple[str, ...],
    phases: tuple[str, ...],
    notify: bool,
    timeout: str | None,
    tenant: str | None,
) -> int:
    """Wait until jobs have reached a phase.

    Without --for it waits for their end and exits with the first exit code that is not 0.
    """
    wanted = read_phases(phases, "--for")
    end = None if timeout is None else time.monotonic() + formatting.read_duration(timeout, "--timeout")
    client = connect(ctx, tenant=tenant)
    codes, ended = [], []
    for job in jobs:
        left = None if end is None else max(0.0, end - time.monotonic())
        found = client.wait(job, phases=wanted or FINAL_PHASES, timeout=left)
        failed = found.phase is Phase.FAILED
        terminal.say(f"{found.name} is {found.phase}" + (f" ({reason_text(found)})" if failed else ""))
        tell_last_lines(client, found)
        ended.append(found)
        codes.append(0 if wanted else exit_code_of_job(found))
    return told(ended, next((code for code in codes if code), 0), wanted=notify)
