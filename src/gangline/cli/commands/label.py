"""``gangline label``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import job_argument, tenant_option
from gangline.errors import InvalidInputError


@click.command("label")
@job_argument
@click.argument("labels", metavar="KEY=VALUE|KEY-...", nargs=-1, required=True)
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, labels: tuple[str, ...], tenant: str | None) -> None:
    """Give a job labels, whether it waits, runs or is finished; KEY- takes one away.

    \b
    gangline label mnist team=vision best=yes draft-
    """
    changed = connect(ctx, tenant=tenant).label(job, dict(map(_change, labels)))
    shown = ", ".join(f"{key}={value}" for key, value in sorted(changed.spec.labels.items())) or "no labels"
    terminal.say(f"{changed.name} has {shown}")


def _change(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if key and equals:
        return key, value
    if text.endswith("-") and len(text) > 1:
        return text[:-1], None
    raise InvalidInputError(
        f"'{text}' changes no label", field="KEY=VALUE", expected="KEY=VALUE, or KEY- to take it away"
    )
