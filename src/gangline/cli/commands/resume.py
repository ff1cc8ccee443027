"""``gangline resume``."""

import click

from gangline.cli.connection.client import connect
from gangline.cli.input.options import selected_jobs, tenant_option
from gangline.cli.many_jobs import ask_for_each, chosen_jobs, tell_phase
from gangline.model import Phase


@click.command("resume")
@selected_jobs
@click.option(
    "--from", "step", metavar="STEP", type=click.IntRange(0), help="Go on from the checkpoint of this step instead."
)
@tenant_option
@click.pass_context
def command(ctx: click.Context, /, *, jobs: tuple[str, ...], step: int | None, tenant: str | None, **_: object) -> None:
    """Let halted jobs go on from their newest checkpoint.

    With --from, checkpoints of later steps that were saved before do not count any more; 'gangline checkpoints JOB'
    lists them. The program must use gangline.runtime.Checkpoints.
    """
    client = connect(ctx, tenant=tenant)
    ask_for_each(chosen_jobs(ctx, client, jobs, {Phase.HALTED}), lambda job: client.resume(job, step=step), tell_phase)
