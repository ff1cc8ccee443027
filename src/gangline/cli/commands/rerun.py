"""``gangline rerun``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect, spoken
from gangline.cli.following.job import finish, follow
from gangline.cli.input.options import job_argument, tenant_option
from gangline.dialects import document
from gangline.errors import InvalidInputError


@click.command("rerun")
@job_argument
@click.option("--name", metavar="NAME", help="The name of the new job; JOB-2 and so on if not given.")
@click.option(
    "--set", "changes", metavar="PATH=VALUE", multiple=True, help="A field of the job file that differs; repeatable."
)
@click.option("--follow", "following", is_flag=True, help="Show the job until its end; exit with its exit code.")
@click.option("--wait", "waiting", is_flag=True, help="Wait for the end; exit with the job's exit code.")
@click.option("--halted", is_flag=True, help="Submit it halted; 'gangline resume' queues it.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    job: str,
    name: str | None,
    changes: tuple[str, ...],
    following: bool,
    waiting: bool,
    halted: bool,
    tenant: str | None,
) -> int:
    """Submit a job once more: the same code, file, and versions of models, but for what --set says.

    \b
    gangline rerun mnist --set env.LEARNING_RATE=0.01 --set roles.worker.replicas=4
    """
    client = connect(ctx, tenant=tenant)
    made = client.rerun(job, name=name, changes=dict(map(_change, changes)), halted=halted)
    click.echo(made.name)
    if following:
        return follow(client, made)
    if waiting:
        return finish(client, made)
    terminal.say(f"follow it with: {spoken(ctx, 'logs -f', made.name, tenant=made.spec.tenant)}")
    return 0


def _change(text: str) -> tuple[str, object]:
    path, separator, value = text.partition("=")
    if not separator or not path:
        raise InvalidInputError(f"'{text}' sets nothing", field="--set", expected="PATH=VALUE")
    return path, document.parse(value)[0].data if value.strip() else ""
