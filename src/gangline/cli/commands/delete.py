"""``gangline delete``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import selected_jobs, tenant_option
from gangline.cli.many_jobs import ask_for_each, chosen_jobs
from gangline.cli.output import formatting
from gangline.model import Job


@click.command("delete")
@selected_jobs
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
    **_: object,
) -> None:
    """Delete jobs and everything they left, stopping them first if they run.

    A name that means no job does not keep the others from being deleted.
    """
    seconds = None if timeout is None else formatting.read_duration(timeout, "--timeout")
    client = connect(ctx, tenant=tenant)
    asked: list[Job] = []
    try:
        ask_for_each(chosen_jobs(ctx, client, jobs), lambda name: client.delete(name, wait=False), asked.append)
    finally:
        for job in asked:
            if not no_wait:
                client.wait_until_gone(job.id, timeout=seconds)
            terminal.say(f"{job.name} is being deleted" if no_wait else f"{job.name} is deleted")
