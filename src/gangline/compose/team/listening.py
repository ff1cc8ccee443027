"""Where a team's service listens, and how its connections are encrypted."""

import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from gangline.compose.team.certificates import context_from, fingerprint_of, own_certificate
from gangline.engines.local.system_users import SystemUsers, UserRange
from gangline.errors import GanglineError, InvalidInputError
from gangline.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """What ``gangline server run`` was told."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    plain: bool = False
    """Plain HTTP: for a loopback address, or behind something that encrypts."""
    trusting: bool = False
    """Whether the tenants trust each other, so that their jobs may run as one system user."""
    replica: bool = False
    """Whether others serve the same home and database."""
    rpc: tuple[str, int] | None = None
    """Where gRPC is served, if anywhere."""

    def tls(self, home: Path) -> ssl.SSLContext | None:
        """Return how connections are encrypted; None for plain HTTP."""
        if self.plain:
            return None
        certificate, key = self.certificate_files(home)
        if self.certificate is None:
            _log.info("the certificate is our own; its fingerprint is %s", fingerprint_of(certificate))
        return context_from(certificate, key)

    def certificate_files(self, home: Path) -> tuple[Path, Path]:
        """Return the certificate and its key: those that were given, or our own."""
        if self.certificate is not None and self.key is not None:
            return self.certificate, self.key
        if self.certificate is not None or self.key is not None:
            raise InvalidInputError("a certificate needs its key", field="--cert", expected="--cert and --key together")
        return own_certificate(home, self.host)

    def users(self, settings: Settings) -> SystemUsers | None:
        """Return the users that jobs of tenants run as; None where they run as that of the service."""
        numbers = UserRange.parse(settings.system_users)
        if os.geteuid() != 0:
            return None
        if self.trusting or numbers is None:
            _log.warning("jobs of the team run as root, and can do everything on this machine")
            return None
        return SystemUsers(settings.home, numbers)


async def open_port(runner: web.AppRunner, listening: Listening, tls: ssl.SSLContext | None) -> None:
    """Listen on the port of the team, and say so."""
    site = web.TCPSite(runner, listening.host, listening.port, ssl_context=tls)
    try:
        await site.start()
    except OSError as error:
        raise GanglineError(f"cannot listen on {listening.host} port {listening.port}: {error.strerror}") from error
    port = runner.addresses[-1][1]
    _log.info("serving a team on %s://%s:%d", "http" if tls is None else "https", listening.host, port)


def read_address(text: str, option: str = "--listen") -> tuple[str, int]:
    """Read HOST:PORT, or [HOST]:PORT for IPv6."""
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise InvalidInputError(f"'{text}' is not an address", field=option, expected="HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
