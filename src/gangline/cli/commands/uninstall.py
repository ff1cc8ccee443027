"""``gangline uninstall``."""

import asyncio
import sys

import click

from gangline.cli import terminal
from gangline.cli.commands.install import place_options
from gangline.cli.connection.client import chosen_context


@click.command("uninstall")
@place_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def command(ctx: click.Context, context: str | None, namespace: str, yes: bool) -> None:  # noqa: FBT001  # click's call
    """Remove Gangline from a Kubernetes cluster, with every job and all it left."""
    from gangline.compose.installing import ClusterInstallation

    installed = ClusterInstallation(context=chosen_context(ctx, context), namespace=namespace)
    if not yes:
        question = f"This deletes {asyncio.run(installed.contents())} and stops what runs. Go on?"
        if not sys.stdin.isatty():
            raise click.UsageError(f"{question} Nobody can answer here; use --yes.", ctx)
        click.confirm(question, abort=True, err=True)
    asyncio.run(installed.uninstall(terminal.say))
    terminal.say("Gangline is gone from the cluster")
