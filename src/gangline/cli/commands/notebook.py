"""``gangline notebook``."""

from typing import Any

import click

from gangline.cli import terminal
from gangline.cli.commands.workspace import (
    ensure,
    list_of,
    no_open_option,
    port_option,
    show_link,
    spec_of,
    start_options,
)
from gangline.cli.connection.client import connect
from gangline.cli.input.options import tenant_option
from gangline.model.kinds.workspace import Tool

_name = click.argument("name", metavar="[NAME]", default="notebook")


@click.group("notebook")
def command() -> None:
    """Start, open and stop notebooks: JupyterLab, as installed in your Python environment.

    \b
    gangline notebook start
    gangline notebook start vision --resources cpu=4,memory=16Gi,gpu=1 --idle 4h
    gangline notebook stop vision
    """


@command.command("start")
@_name
@start_options
@click.pass_context
def start(ctx: click.Context, /, *, name: str, no_open: bool, port: int | None, **given: Any) -> None:
    """Start a notebook, or one that was stopped with its files, and open it."""
    spec = spec_of(ctx, name, Tool.NOTEBOOK, given)
    show_link(ensure(ctx, spec), name, port=port, no_open=no_open)


@command.command("open")
@_name
@no_open_option
@port_option
@tenant_option
@click.pass_context
def open_(ctx: click.Context, /, *, name: str, no_open: bool, port: int | None, tenant: str | None) -> None:
    """Open a notebook that runs."""
    show_link(connect(ctx, tenant=tenant).workspaces, name, port=port, no_open=no_open)


@command.command("list")
@tenant_option
@click.pass_context
def list_(ctx: click.Context, /, *, tenant: str | None) -> None:
    """List notebooks."""
    list_of(ctx, Tool.NOTEBOOK, tenant)


@command.command("stop")
@_name
@tenant_option
@click.pass_context
def stop(ctx: click.Context, /, *, name: str, tenant: str | None) -> None:
    """Stop a notebook; its files are kept."""
    found = connect(ctx, tenant=tenant).workspaces.stop(name)
    terminal.say(f"{name} is {found.state}")


@command.command("delete")
@_name
@tenant_option
@click.pass_context
def delete(ctx: click.Context, /, *, name: str, tenant: str | None) -> None:
    """Delete a notebook and all its files."""
    connect(ctx, tenant=tenant).workspaces.delete(name)
    terminal.say(f"{name} and its files are deleted")
