"""``gangline login``."""

import sys
from dataclasses import replace
from typing import TextIO
from urllib.parse import urlsplit

import click

from gangline.cli import terminal
from gangline.cli.commands.config import write_setting
from gangline.errors import InvalidInputError
from gangline.sdk.login.logging_in import certificate_fingerprint, login_ways, tenant_for, try_login
from gangline.sdk.login.logins import Login, keep_login
from gangline.settings import Settings


@click.command("login")
@click.argument("address", metavar="URL")
@click.option(
    "--token-file", type=click.File("r"), metavar="FILE", help="Read the token from a file; '-' is standard input."
)
@click.option("--name", metavar="NAME", help="What to call the context; the host's name if not given.")
@click.option("--tenant", metavar="NAME", help="The tenant that commands act for unless they name another.")
@click.option("--fingerprint", metavar="SHA256", help="Accept a certificate of the service's own only if it has this.")
def command(
    *, address: str, token_file: TextIO | None, name: str | None, tenant: str | None, fingerprint: str | None
) -> None:
    """Log in to a team's service, and let all commands use it from now on.

    \\b
    gangline login https://gpu.example.org:8470
    gangline --context '' list      # this machine's own service, once

    A certificate that no authority has signed is shown by its fingerprint, to be compared with the one that the service
    prints when it starts; from then on no other is accepted.
    """
    settings = Settings.load()
    address, context = address.rstrip("/"), name or urlsplit(address).hostname or ""
    if not context:
        raise InvalidInputError(f"'{address}' is not an address", field="URL", expected="https://HOST:PORT")
    pinned = _accepted(certificate_fingerprint(address), fingerprint)
    ways = login_ways(address, pinned, settings)
    if token_file is not None:
        token, refresh = token_file.read().strip(), ""
    elif ways.issuer:
        from gangline.sdk.login.device_flow import log_in

        token, refresh = log_in(ways, say=terminal.say)
    else:
        token, refresh = click.prompt("Token", hide_input=True, err=True).strip(), ""
    login = Login(address=address, token=token, fingerprint=pinned, refresh_token=refresh)
    myself = try_login(login, settings)
    chosen = tenant_for(login, myself, tenant or "", settings)
    keep_login(settings, context, replace(login, tenant=chosen))
    write_setting("context", context)
    roles = ", ".join(f"{role} of {each}" for each, role in sorted(myself.roles.items()))
    terminal.say(f"logged in as {myself.name} ({'operator' if myself.operator else roles or 'no role yet'})")
    terminal.say(f"commands use the context '{context}' from now on" + (f", tenant '{chosen}'" if chosen else ""))


def _accepted(found: str, wanted: str | None) -> str:
    """Return the fingerprint to pin: that of an own certificate, if it is the one that was said or agreed to."""
    if wanted is not None:
        if found != wanted.replace(":", "").lower():
            raise InvalidInputError(
                f"the certificate has the fingerprint {found or '(signed by an authority)'}", field="--fingerprint"
            )
        return found
    if found:
        terminal.say(f"the service has a certificate of its own, with the fingerprint\n  {found}")
        if not sys.stdin.isatty():
            raise InvalidInputError(
                "nobody is there to compare it", field="--fingerprint", expected="the one that the service printed"
            )
        click.confirm("Is it the one that the service printed?", abort=True, err=True)
    return found
