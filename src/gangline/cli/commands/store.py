"""``gangline store``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_settings, connect
from gangline.cli.input.options import complete_files, tenant_option
from gangline.cli.input.store_keys import read_keys
from gangline.cli.kind_commands import add_commands
from gangline.kinds.store import STORE
from gangline.model import Tenant
from gangline.model.kinds.data_store import DataStore

_name = click.argument("name", metavar="NAME")
_keys_file = click.option(
    "--keys-file",
    metavar="FILE",
    help="Read the keys from this file; '-' is standard input.",
    shell_complete=complete_files,
)


@click.group("store")
def command() -> None:
    """Add, list and remove object stores that jobs may name.

    \b
    gangline store add lake s3://bucket --endpoint https://s3.example.org
    """


@command.command("add")
@_name
@click.argument("address", metavar="ADDRESS")
@click.option("--endpoint", metavar="URL", default="", help="The server, if it is not the provider's own.")
@click.option("--region", metavar="REGION", default="", help="The region, where the server wants one.")
@click.option("--default", is_flag=True, help="Use it for addresses that it covers without being named.")
@_keys_file
@click.option("--no-keys", is_flag=True, help="Keep no keys: movers use the environment of the service.")
@tenant_option
@click.pass_context
def add(
    ctx: click.Context,
    /,
    *,
    name: str,
    address: str,
    endpoint: str,
    region: str,
    default: bool,
    keys_file: str | None,
    no_keys: bool,
    tenant: str | None,
) -> None:
    """Add an object store: s3://BUCKET, gs://BUCKET or az://CONTAINER, with its keys.

    The keys come from a file, from the variables that the provider's own tools read, or from a prompt. They are kept in
    a Secret of the tenant, apart from the store and from jobs, and are never shown again.
    """
    owner = Tenant(tenant or (ctx.find_root().obj or {}).get("tenant") or chosen_settings(ctx).tenant)
    spec = DataStore(name=name, tenant=owner, address=address, endpoint=endpoint, region=region, default=default)
    keys = None if no_keys else read_keys(spec.scheme, keys_file)
    click.echo(connect(ctx, tenant=tenant).stores.add(spec, keys).name)


@command.command("set-keys")
@_name
@_keys_file
@tenant_option
@click.pass_context
def set_keys(ctx: click.Context, /, *, name: str, keys_file: str | None, tenant: str | None) -> None:
    """Replace the keys of a store; jobs that start from now on use them."""
    stores = connect(ctx, tenant=tenant).stores
    stores.set_keys(name, read_keys(stores.get(name).spec.scheme, keys_file))
    terminal.say(f"{name} has new keys")


add_commands(command, STORE)
_remove = command.commands["delete"]
command.add_command(click.Command("remove", callback=_remove.callback, params=_remove.params, help=_remove.help))
