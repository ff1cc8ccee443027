"""How a client proves who it is: a fixed secret, a token file that is rotated, or a credential plug-in.

``access`` chooses the source; ``transport`` asks it before every request and tells it when the server said no.
"""

import asyncio
import base64
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec

from gangline.kube.errors import CredentialError

_TOKEN_FILE_TRUST = timedelta(seconds=10)
_EXPIRY_MARGIN = timedelta(seconds=20)
_PLUGIN_TIMEOUT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate chain and its key, both PEM; the key is kept out of every printed form."""

    chain: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What goes with a request: a bearer token, a client certificate, both or neither."""

    token: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None


class CredentialSource(Protocol):
    """Where the credential comes from."""

    async def current(self) -> Credential:
        """Return the credential to use now; raises ``CredentialError`` when there is none."""
        ...

    def forget(self) -> None:
        """Drop what is remembered: the server did not accept it."""
        ...


@dataclass(frozen=True, slots=True)
class FixedCredential:
    """A credential that never changes."""

    credential: Credential = Credential()

    async def current(self) -> Credential:
        """Return the credential."""
        return self.credential

    def forget(self) -> None:
        """Do nothing: there is no newer one."""


def wall_clock() -> datetime:
    """Return the time credentials expire by, which others set; callers with a clock of their own hand it in."""
    return datetime.now(UTC)  # noqa: TID251  # expiry is wall-clock time decided outside Gangline


class TokenFile:
    """A bearer token in a file that somebody rotates, as in a pod's service account."""

    def __init__(
        self, path: Path, *, certificate: ClientCertificate | None = None, now: Callable[[], datetime] = wall_clock
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._now = now
        self._read_at: datetime | None = None
        self._token = ""

    async def current(self) -> Credential:
        """Return the token, read again when the last reading is some seconds old."""
        if self._read_at is None or self._now() - self._read_at >= _TOKEN_FILE_TRUST:
            try:
                self._token = self._path.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise CredentialError(f"token file {self._path}: {error.strerror}") from error
            self._read_at = self._now()
        return Credential(token=self._token, certificate=self._certificate)

    def forget(self) -> None:
        """Read the file again next time."""
        self._read_at = None


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    status: _ExecStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCommand:
    """The ``exec`` entry of a kubeconfig user."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster_information: Mapping[str, Any] | None = None

    def interactive(self, *, terminal: bool) -> bool:
        """Whether the plug-in may talk to the person; raises if it must and cannot."""
        if self.interactive_mode == "Always" and not terminal:
            raise CredentialError(f"credential plug-in {self.command} needs a terminal, and there is none")
        return terminal and self.interactive_mode != "Never"

    def execution_information(self, *, interactive: bool) -> str:
        """Build what the plug-in reads from ``KUBERNETES_EXEC_INFO``."""
        spec: dict[str, Any] = {"interactive": interactive}
        if self.cluster_information is not None:
            spec["cluster"] = dict(self.cluster_information)
        document = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(document).decode()


class ExecPlugin:
    """A program that prints a credential; asked again shortly before the credential expires."""

    def __init__(self, command: PluginCommand, *, now: Callable[[], datetime] = wall_clock) -> None:
        self._command = command
        self._now = now
        self._held: Credential | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        """Return the held credential, or run the plug-in (once, however many requests wait for it)."""
        async with self._lock:
            expired = self._expires is not None and self._now() >= self._expires - _EXPIRY_MARGIN
            if self._held is None or expired:
                status = self._parse(await self._run())
                self._held, self._expires = _credential_of(status), status.expiration_timestamp
            return self._held

    def forget(self) -> None:
        """Run the plug-in again next time."""
        self._held = None

    async def _run(self) -> bytes:
        plugin = self._command
        interactive = plugin.interactive(terminal=sys.stdin is not None and sys.stdin.isatty())
        information = plugin.execution_information(interactive=interactive)
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": information},
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
            raise CredentialError(f"credential plug-in {plugin.command}: {error.strerror}{hint}") from error
        try:
            output, complaint = await asyncio.wait_for(process.communicate(), _PLUGIN_TIMEOUT_SECONDS)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            said = (complaint or b"").decode(errors="replace").strip()
            raise CredentialError(f"credential plug-in {plugin.command} ended with {process.returncode}: {said}")
        return output

    def _parse(self, output: bytes) -> _ExecStatus:
        try:
            document = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.MsgspecError as error:
            raise CredentialError(f"credential plug-in {self._command.command}: {error}") from error
        if document.api_version != self._command.api_version:
            raise CredentialError(
                f"credential plug-in {self._command.command} speaks {document.api_version or 'no version'}, "
                f"the configuration expects {self._command.api_version}"
            )
        status = document.status
        if status is None or not (status.token or status.client_certificate_data):
            raise CredentialError(f"credential plug-in {self._command.command} gave neither token nor certificate")
        return status


def _credential_of(status: _ExecStatus) -> Credential:
    credential = Credential(token=status.token)
    if status.client_certificate_data and status.client_key_data:
        certificate = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        credential = replace(credential, certificate=certificate)
    return credential


def decode_inline(data: str, *, entry: str) -> bytes:
    """Decode a ``...-data`` entry of a kubeconfig."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise CredentialError(f"{entry} is not base64") from error
