"""``gangline server``."""

import click

from gangline.cli import terminal
from gangline.sdk import Client
from gangline.sdk.background import (
    address_of,
    ensure_service,
    log_tail,
    running_process,
    stop_service,
)
from gangline.settings import Settings

_NOT_RUNNING = 3


@click.group("server")
def command() -> None:
    """Start, stop and look at the local service."""


@command.command("start")
def start() -> None:
    """Start the service in the background, unless it runs already."""
    settings = Settings.load()
    ensure_service(settings, say=terminal.say)
    terminal.say(f"the service runs (process {running_process(settings)})")


@command.command("stop")
def stop() -> None:
    """Stop the service. Running jobs go on, and the next service finds them again."""
    process = stop_service(Settings.load())
    terminal.say("no service runs" if process is None else f"stopped the service (process {process}); its jobs go on")


@command.command("status")
def status() -> int:
    """Show whether the service runs; exits with 3 when it does not."""
    settings = Settings.load()
    process = running_process(settings)
    facts = {
        "State": "not running" if process is None else "running",
        "Process": "" if process is None else str(process),
        "Version": "" if process is None else Client(address_of(settings), settings=settings).version(),
        "Address": address_of(settings),
        "Home": str(settings.home),
        "Log": str(settings.log_file),
    }
    for name, fact in facts.items():
        if fact:
            click.echo(f"{name + ':':<9} {fact}")
    return _NOT_RUNNING if process is None else 0


@command.command("run")
def run() -> None:
    """Run the service in this process until it is interrupted."""
    # The service itself: heavy, and needed by no other command.
    from gangline.compose import serve_forever

    serve_forever(Settings.load())


@command.command("logs")
@click.option("--tail", type=click.IntRange(1), default=100, show_default=True, help="How many last lines.")
def logs(tail: int) -> None:
    """Show the end of the service's own log."""
    click.echo(log_tail(Settings.load().log_file, tail))
