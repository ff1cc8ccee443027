"""``gangline doctor``."""

import click

from gangline.cli import terminal
from gangline.cli.checks import CHECKS, Health
from gangline.cli.documents import json_text
from gangline.cli.options import Output, output_option
from gangline.settings import Settings

_MARKS = {Health.GOOD: ("ok", "green"), Health.LIMITED: ("note", "yellow"), Health.BAD: ("FAIL", "red")}


@click.command("doctor")
@output_option(Output.TABLE, Output.JSON)
def command(output: str) -> int:
    """Check this machine and the service; exits with 1 when something is wrong."""
    settings = Settings.load()
    findings = [check(settings) for check in CHECKS]
    if output == Output.JSON:
        click.echo(json_text(findings))
    else:
        for finding in findings:
            word, colour = _MARKS[finding.health]
            mark = f"{word:<5}"
            click.echo(
                f"{click.style(mark, fg=colour) if terminal.colours() else mark} {finding.subject}: {finding.found}"
            )
            if finding.fix:
                click.echo(f"      fix: {finding.fix}")
    return 1 if any(finding.health is Health.BAD for finding in findings) else 0
