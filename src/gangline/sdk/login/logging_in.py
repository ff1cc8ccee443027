"""Logging in to a team's service: its certificate is looked at, then the token is tried, then both are kept."""

import socket
import ssl
from urllib.parse import urlsplit

from gangline.errors import UnreachableError
from gangline.sdk.client import Client
from gangline.sdk.login.logins import Login
from gangline.sdk.transports.addresses import transport_to
from gangline.sdk.transports.http import CONNECT_SECONDS, fingerprint_of, pinning_context
from gangline.settings import Settings
from gangline.wire import LoginWays, Myself


def certificate_fingerprint(address: str) -> str:
    """Return the fingerprint of a service's certificate if no authority has signed it; empty if one has."""
    parts = urlsplit(address)
    if parts.scheme not in ("https", "grpcs"):
        return ""
    place = (parts.hostname or "", parts.port or 443)
    try:
        with socket.create_connection(place, CONNECT_SECONDS) as plain:
            try:
                with ssl.create_default_context().wrap_socket(plain, server_hostname=place[0]):
                    return ""
            except ssl.SSLCertVerificationError:
                pass
        with (
            socket.create_connection(place, CONNECT_SECONDS) as plain,
            pinning_context().wrap_socket(plain, server_hostname=place[0]) as wire,
        ):
            return fingerprint_of(wire)
    except OSError as error:
        raise UnreachableError(f"no service answers at {address}: {error}") from error


def login_ways(address: str, fingerprint: str, settings: Settings) -> LoginWays:
    """Ask a service how to log in."""
    transport = transport_to(address, fingerprint=fingerprint)
    return Client(context="", transport=transport, settings=settings).team.login_ways()


def try_login(login: Login, settings: Settings) -> Myself:
    """Ask a service whom it takes the login for; raises UnauthenticatedError if for nobody."""
    return _client_of(login, settings).team.myself()


def _client_of(login: Login, settings: Settings, tenant: str | None = None) -> Client:
    transport = transport_to(login.address, token=lambda: login.token, fingerprint=login.fingerprint)
    return Client(context="", tenant=tenant, transport=transport, settings=settings)


def tenant_for(login: Login, myself: Myself, wanted: str, settings: Settings) -> str:
    """Return the tenant that commands will act for: the one wanted, else the only one.

    A service does not know all roles of somebody where a cluster decides, so it is asked about the one that is wanted.
    """
    if wanted and not myself.operator and wanted not in myself.roles:
        _client_of(login, settings, wanted).list(limit=1)
    return wanted or (next(iter(myself.roles)) if len(myself.roles) == 1 else "")
