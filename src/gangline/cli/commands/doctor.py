"""``gangline doctor``."""

import asyncio

import click

from gangline.cli import terminal
from gangline.cli.doctor_checks import CHECKS, check_python
from gangline.cli.input.options import Output, output_option, tenant_option
from gangline.cli.output.documents import json_text
from gangline.compose.findings import Finding, Health
from gangline.settings import Settings

_MARKS = {Health.GOOD: ("ok", "green"), Health.LIMITED: ("note", "yellow"), Health.BAD: ("FAIL", "red")}


@click.command("doctor")
@output_option(Output.TABLE, Output.JSON)
@tenant_option
@click.pass_context
def command(ctx: click.Context, output: str, tenant: str | None) -> int:
    """Check this machine and the service, or a cluster; exits with 1 when something is wrong."""
    settings, chosen = Settings.load(), ctx.find_root().obj or {}
    context = settings.context if chosen.get("context") is None else chosen["context"]
    if context and not chosen.get("server"):
        # Only a cluster needs what speaks to one.
        from gangline.compose.examining import examine

        findings = [check_python(settings), *asyncio.run(examine(context, tenant=tenant or chosen.get("tenant")))]
    else:
        findings = [check(settings) for check in CHECKS]
    if output == Output.JSON:
        click.echo(json_text(findings))
    else:
        _print(findings)
    return 1 if any(finding.health is Health.BAD for finding in findings) else 0


def _print(findings: list[Finding]) -> None:
    for finding in findings:
        word, colour = _MARKS[finding.health]
        mark = f"{word:<5}"
        click.echo(f"{click.style(mark, fg=colour) if terminal.colours() else mark} {finding.subject}: {finding.found}")
        if finding.fix:
            click.echo(f"      fix: {finding.fix}")
