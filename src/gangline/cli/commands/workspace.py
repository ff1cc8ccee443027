"""``gangline workspace``, and what its short forms share with it."""

from collections.abc import Callable
from typing import Any

import click

from gangline.cli import terminal
from gangline.cli.commands.dashboard import open_browser
from gangline.cli.connection.client import chosen_settings, connect, spoken
from gangline.cli.input.options import tenant_option
from gangline.cli.kind_commands import add_commands, print_table
from gangline.cli.output import formatting
from gangline.errors import NotFoundError
from gangline.kinds.workspace import WORKSPACE
from gangline.model import QueueName, Tenant
from gangline.model.kinds.workspace import Tool, Workspace, WorkspaceSpec
from gangline.sdk.verbs.workspaces import Workspaces

_RESOURCES = next(each for each in WORKSPACE.format.options if each.attribute == "resources")
_PAIRS = next(each for each in WORKSPACE.format.options if each.attribute == "env")

_name = click.argument("name", metavar="NAME")
no_open_option = click.option("--no-open", is_flag=True, help="Print the link and open no browser.")
port_option = click.option(
    "--port", type=click.IntRange(1, 65535), help="The port of this machine, if your own service has opened none yet."
)


@click.group("workspace")
def command() -> None:
    """Notebooks, TensorBoards and other programs in a browser.

    \b
    gangline notebook start
    gangline tensorboard JOB
    gangline workspace create editor --tool program --command 'code-server,--port,$(PORT)'
    """


@command.command("open")
@_name
@no_open_option
@port_option
@tenant_option
@click.pass_context
def open_(ctx: click.Context, /, *, name: str, no_open: bool, port: int | None, tenant: str | None) -> None:
    """Open a workspace that runs; the link lets in whoever opens it first, within two minutes."""
    show_link(connect(ctx, tenant=tenant).workspaces, name, port=port, no_open=no_open)


def show_link(workspaces: Workspaces, name: str, *, port: int | None, no_open: bool) -> None:
    """Wait until a workspace can be opened, print the link and open it."""
    if workspaces.get(name).state == "starting":
        terminal.say(f"waiting until {name} is ready; interrupting does not end it")
        workspaces.wait_ready(name)
    open_browser(workspaces.link(name, port=port), no_open=no_open)


def start_options(function: Any) -> Any:
    """Add the options that say where a workspace runs, and for how long."""
    options: list[Callable[[Any], Any]] = [
        click.option("--queue", metavar="QUEUE", help="Where it gets its machine from."),
        click.option("--resources", metavar="RESOURCE=AMOUNT,...", help="What it needs: cpu=2,memory=4Gi,gpu=1."),
        click.option("--preemptible", is_flag=True, help="It may be stopped for others, and starts again after that."),
        click.option("--volume", "volumes", metavar="NAME=PATH", multiple=True, help="A volume, and where it is."),
        click.option("--code", metavar="DIRECTORY", help="Copied into it when it starts; what is there already stays."),
        click.option("--env", "variables", metavar="NAME=VALUE", multiple=True, help="A variable."),
        click.option("--image", metavar="IMAGE", help="The image, on a cluster."),
        click.option("--idle", metavar="TIME", help="Stop it after this long without use; 0s: never. Default: 1h."),
        no_open_option,
        port_option,
        tenant_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


def spec_of(ctx: click.Context, name: str, tool: Tool, given: dict[str, Any], **more: Any) -> WorkspaceSpec:
    """Make a workspace from the options of ``start_options``."""
    tenant = given["tenant"] or (ctx.find_root().obj or {}).get("tenant") or chosen_settings(ctx).tenant
    if given["queue"]:
        more["queue"] = QueueName(given["queue"])
    if given["resources"]:
        more["resources"] = _RESOURCES.read(given["resources"])
    if given["idle"]:
        more["idle_seconds"] = formatting.read_duration(given["idle"], "--idle")
    return WorkspaceSpec(
        name=name,
        tenant=Tenant(tenant),
        tool=tool,
        preemptible=given["preemptible"],
        volumes=_PAIRS.read(",".join(given["volumes"])) if given["volumes"] else {},
        env=dict(pair.partition("=")[::2] for pair in given["variables"]),
        code=given["code"] or "",
        image=given["image"] or "",
        **more,
    )


def ensure(ctx: click.Context, spec: WorkspaceSpec) -> Workspaces:
    """Make a workspace or, if there is one of that name already, start it again as it is."""
    workspaces = connect(ctx, tenant=spec.tenant).workspaces
    try:
        found = workspaces.get(spec.name)
    except NotFoundError:
        workspaces.create(spec)
    else:
        if found.spec.tool is not spec.tool:
            hint = f"it is a {found.spec.tool}; use another name"
            raise click.UsageError(f"there is a workspace '{spec.name}' already: {hint}", ctx)
        resumed = workspaces.start(spec.name)
        terminal.say(f"{spec.name} goes on with its files and as it was made (run {resumed.status.run})")
    stop = spoken(ctx, "workspace", "stop", spec.name, tenant=spec.tenant)
    terminal.say(f"stop it with: {stop}")
    return workspaces


def list_of(ctx: click.Context, tool: Tool, tenant: str | None) -> None:
    """Print the workspaces that run one tool."""
    found: list[Workspace] = [each for each in connect(ctx, tenant=tenant).workspaces.list() if each.spec.tool is tool]
    if found:
        print_table(WORKSPACE, found)
    else:
        terminal.say(f"no {tool}s")


add_commands(command, WORKSPACE)
