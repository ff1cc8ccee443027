"""``gangline scale``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import job_argument, tenant_option
from gangline.dialects.native import pairs
from gangline.errors import InvalidInputError


@click.command("scale")
@job_argument
@click.argument("counts", metavar="ROLE=COUNT...", nargs=-1, required=True)
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, counts: tuple[str, ...], tenant: str | None) -> None:
    """Change the number of replicas of a running job: gangline scale mnist worker=8."""
    wanted = {
        role: _count(role, text)
        for role, text in pairs(counts, "ROLE=COUNT", form="ROLE=COUNT, for example worker=4").items()
    }
    changed = connect(ctx, tenant=tenant).scale(job, wanted)
    shown = ", ".join(f"{role}={count}" for role, count in changed.scale)
    terminal.say(f"{changed.name} will have {shown}")


def _count(role: str, text: str) -> int:
    if not text.isdigit():
        raise InvalidInputError(f"'{text}' is not a count", field=role, expected="a whole number")
    return int(text)
