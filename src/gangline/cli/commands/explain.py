"""``gangline explain``."""

import click

from gangline.cli import terminal, words
from gangline.cli.connection import connect
from gangline.cli.documents import json_text, yaml_text
from gangline.cli.jobs import reason_text
from gangline.cli.options import Output, job_argument, output_option, tenant_option


@click.command("explain")
@job_argument
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, output: str, tenant: str | None) -> None:
    """Say why a job waits and what would help."""
    client = connect(ctx, tenant=tenant)
    found = client.get(job)
    if not found.placeable:
        click.echo(f"{found.name} does not wait for machines: it is {found.phase} ({reason_text(found)}).")
        return
    why = client.explain(job)
    if output == Output.JSON:
        click.echo(json_text(why))
    elif output == Output.YAML:
        click.echo(yaml_text(why))
    else:
        click.echo(f"{found.name} is {found.phase}.")
        for sentence in why.sentences:
            click.echo(sentence)
        if why.predicted_start_at is not None:
            wait = why.predicted_start_at - terminal.now()
            click.echo(f"Predicted start: in {words.duration(wait)}." if wait > 0 else "Predicted start: any moment.")
