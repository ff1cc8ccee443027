"""``gangline queues``."""

import click

from gangline.cli import table, terminal, words
from gangline.cli.connection import connect
from gangline.cli.documents import json_text, yaml_text
from gangline.cli.options import Output, output_option


@click.command("queues")
@output_option(Output.TABLE, Output.JSON, Output.YAML, Output.NAME)
@click.pass_context
def command(ctx: click.Context, output: str) -> None:
    """List the queues."""
    queues = connect(ctx).queues()
    if output == Output.JSON:
        click.echo(json_text(queues))
    elif output == Output.YAML:
        click.echo(yaml_text(queues))
    elif output == Output.NAME:
        for queue in queues:
            click.echo(queue.name)
    else:
        rows = [
            (
                queue.name,
                queue.parent or "-",
                str(queue.weight),
                words.amount(queue.guarantee),
                "none" if queue.limit is None else words.amount(queue.limit),
                ", ".join(queue.tenants) or "all",
            )
            for queue in queues
        ]
        for line in table.lines(
            ("NAME", "PARENT", "WEIGHT", "GUARANTEE", "LIMIT", "TENANTS"), rows, width=terminal.width()
        ):
            click.echo(line)
