"""``gangline delete``."""

import click

from gangline.cli import terminal, words
from gangline.cli.connection import connect
from gangline.cli.one_by_one import ask_for_each
from gangline.cli.options import jobs_argument, tenant_option
from gangline.model import Job


@click.command("delete")
@jobs_argument
@click.option("--no-wait", is_flag=True, help="Return at once; the job disappears in the background.")
@click.option("--timeout", metavar="DURATION", help="Wait no longer than this, with exit code 124.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    jobs: tuple[str, ...],
    no_wait: bool,
    timeout: str | None,
    tenant: str | None,
) -> None:
    """Delete jobs and everything they left, stopping them first if they run.

    A name that means no job does not keep the others from being deleted.
    """
    seconds = None if timeout is None else words.read_duration(timeout, "--timeout")
    client = connect(ctx, tenant=tenant)
    asked: list[Job] = []
    try:
        ask_for_each(jobs, lambda name: client.delete(name, wait=False), asked.append)
    finally:
        for job in asked:
            if not no_wait:
                client.wait_until_gone(job.id, timeout=seconds)
            terminal.say(f"{job.name} is being deleted" if no_wait else f"{job.name} is deleted")
