"""``gangline chaos``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import job_argument, tenant_option
from gangline.cli.output import formatting
from gangline.dialects.native import pairs


@click.command("chaos")
@job_argument
@click.option(
    "--kill",
    "kills",
    metavar="ROLE=DURATION",
    multiple=True,
    required=True,
    help="Kill a random replica of this role at this interval; repeatable.",
)
@click.option("--for", "lasting", metavar="DURATION", help="Stop after this time; otherwise when the job ends.")
@click.option("--seed", type=int, help="Choose the same replicas again.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    job: str,
    kills: tuple[str, ...],
    lasting: str | None,
    seed: int | None,
    tenant: str | None,
) -> None:
    """Kill random replicas of a running job on a schedule, to see whether it survives.

    \b
    gangline chaos mnist --kill worker=5s --kill ps=20s --for 60s
    """
    # Nothing but a drill needs it.
    from gangline.sdk.chaos import disturb

    given = pairs(kills, "--kill", form="ROLE=PERIOD, for example worker=5s")
    periods = {role: formatting.read_duration(text, "--kill") for role, text in given.items()}
    seconds = None if lasting is None else formatting.read_duration(lasting, "--for")
    client = connect(ctx, tenant=tenant)
    killed = 0
    for strike in disturb(client, job, periods, for_seconds=seconds, seed=seed):
        if strike.replica is None:
            terminal.say(f"{strike.after_seconds:6.1f} s  no {strike.role} runs")
        else:
            killed += 1
            click.echo(f"{strike.after_seconds:6.1f} s  killed {strike.replica}")
    found = client.get(job)
    terminal.say(f"killed {formatting.counted(killed, 'replica')}; {found.name} is {found.phase}")
