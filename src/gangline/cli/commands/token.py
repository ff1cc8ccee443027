"""``gangline token``."""

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, output_option, tenant_option
from gangline.cli.output import formatting, table
from gangline.cli.output.documents import json_text, yaml_text
from gangline.errors import InvalidInputError
from gangline.model.team.access import PLATFORM_ROLES, Role
from gangline.wire import iso, plain

_name = click.argument("name", metavar="NAME")
_platform = click.option("--operator", is_flag=True, help="Tokens of operators, who are in all tenants.")


@click.group("token")
def command() -> None:
    """Create, list and revoke tokens of a team's service.

    \\b
    gangline token create ci --role member --tenant vision
    """


@command.command("create")
@_name
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role if role not in PLATFORM_ROLES]),
    default=Role.MEMBER.value,
    show_default=True,
    help="What its holder may do.",
)
@click.option("--monitor", is_flag=True, help="For a monitoring system: it may read the figures of the platform.")
@click.option("--ttl", metavar="DURATION", default="30d", show_default=True, help="How long it is valid.")
@_platform
@tenant_option
@click.pass_context
def create(
    ctx: click.Context, /, *, name: str, role: str, monitor: bool, ttl: str, operator: bool, tenant: str | None
) -> None:
    """Make a token and print it, this once."""
    if monitor and operator:
        raise InvalidInputError("two roles", field="--monitor", expected="--monitor or --operator")
    wanted = Role.MONITOR if monitor else Role.OPERATOR if operator else Role(role)
    client = connect(ctx, tenant=tenant)
    made = client.team.create_token(
        name,
        role=wanted,
        tenant="" if wanted in PLATFORM_ROLES else client.tenant,
        seconds=formatting.read_duration(ttl, "--ttl"),
    )
    terminal.say(f"{name} is {_whose(made.token.role, made.token.tenant)}; this is shown once:")
    click.echo(made.text)


@command.command("list")
@_platform
@tenant_option
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@click.pass_context
def list_(ctx: click.Context, /, *, operator: bool, tenant: str | None, output: str) -> None:
    """List the tokens of a tenant, without their secrets."""
    client = connect(ctx, tenant=tenant)
    found = client.team.tokens("" if operator else client.tenant)
    if output != Output.TABLE:
        click.echo((json_text if output == Output.JSON else yaml_text)(plain(found)))
        return
    rows = [
        (
            each.name,
            each.role,
            each.id,
            each.created_by,
            "never" if each.expires_at is None else iso(each.expires_at)[:16],
        )
        for each in found
    ]
    for line in table.lines(("NAME", "ROLE", "ID", "CREATED BY", "EXPIRES"), rows, width=terminal.width()):
        click.echo(line)


@command.command("revoke")
@_name
@_platform
@tenant_option
@click.pass_context
def revoke(ctx: click.Context, /, *, name: str, operator: bool, tenant: str | None) -> None:
    """Make a token worthless from now on."""
    client = connect(ctx, tenant=tenant)
    gone = client.team.revoke_token(name, tenant="" if operator else client.tenant)
    terminal.say(f"revoked {gone.name} ({_whose(gone.role, gone.tenant)})")


def _whose(role: str, tenant: str | None) -> str:
    article = "an" if role[0] in "ao" else "a"
    return f"{article} {role}'s" if tenant is None else f"{article} {role}'s of tenant '{tenant}'"
