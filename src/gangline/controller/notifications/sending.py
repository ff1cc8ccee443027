"""Sends one notification: posts it, or hands it to a mail server. What is secret is read for it, and never shown.

Whoever makes a notification chooses an address, and the service connects to it: that must not be a way to reach what
only the service can. So the address is judged when the connection is made, as it was resolved then; no redirect is
followed, no proxy is used, and of the answer only the status is looked at.
"""

import asyncio
import ipaddress
import smtplib
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp

from gangline.errors import GanglineError, InvalidInputError
from gangline.kinds.notification.messages import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIME_HEADER,
    sentence,
    signature,
    signing_key,
    slack_body,
    webhook_body,
)
from gangline.model import Clock, Tenant
from gangline.model.kinds.notification import Delivery, NotificationSpec, NotificationType, problem_of_url

SEND_SECONDS = 10.0
"""How long a receiver may take."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
SecretReader = Callable[[Tenant, str], Awaitable[Mapping[str, str]]]
"""Returns the values of a tenant's Secret; raises GanglineError if there is none that may be read."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a notification was not accepted; ``gone`` if the receiver wants no more."""

    text: str
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The server that mail is handed to."""

    host: str
    sender: str
    port: int = 587
    security: str = "starttls"
    user: str = ""
    password_file: Path | None = None
    domains: tuple[str, ...] = ()
    """The domains that may be written to; all without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Sends notifications. ``networks`` may be reached besides public addresses; None: everything may."""

    secret_of: SecretReader
    clock: Clock
    networks: tuple[Network, ...] | None = ()
    mail: MailServer | None = None

    async def send(self, spec: NotificationSpec, delivery: Delivery) -> Refusal | None:
        """Send one; return why it was not accepted, if it was not."""
        try:
            async with asyncio.timeout(SEND_SECONDS):
                if spec.type is NotificationType.EMAIL:
                    return await self._write(spec, delivery)
                return await self._post(spec, delivery)
        except TimeoutError:
            return Refusal(f"no answer within {SEND_SECONDS:g} s")
        except GanglineError as error:
            return Refusal(str(error))
        except aiohttp.ClientConnectorError as error:
            return Refusal(f"cannot connect: {error.os_error.strerror or type(error.os_error).__name__}")
        except smtplib.SMTPResponseException as error:
            return Refusal(f"the mail server answers {error.smtp_code}")
        except (aiohttp.ClientError, smtplib.SMTPException, OSError, ValueError) as error:
            return Refusal(f"it cannot be sent: {type(error).__name__}")  # the text may have the address in it

    async def _post(self, spec: NotificationSpec, delivery: Delivery) -> Refusal | None:
        values = await self.secret_of(spec.tenant, spec.secret) if spec.secret else {}
        url = spec.url or values.get("url", "").strip()
        if problem := problem_of_url(url):
            return Refusal(f"the value 'url' of Secret '{spec.secret}' cannot be used: {problem}")
        headers = {"Content-Type": "application/json", "User-Agent": "gangline", ID_HEADER: delivery.id}
        if spec.type is NotificationType.SLACK:
            body = slack_body(spec.tenant, delivery)
        elif not values.get("key"):
            return Refusal(f"Secret '{spec.secret}' has no value 'key' to sign with")
        else:
            body, now = webhook_body(spec.tenant, delivery), self.clock.now()
            headers[TIME_HEADER] = str(int(now))
            headers[SIGNATURE_HEADER] = signature(signing_key(values["key"]), delivery.id, now, body)
        closed: list[str] = []

        def open_socket(info: Any) -> socket.socket:
            if not reachable(info[4][0], self.networks):
                closed.append(info[4][0])
                raise PermissionError("not a public address")
            return socket.socket(*info[:3])

        connector = aiohttp.TCPConnector(socket_factory=open_socket, use_dns_cache=False, force_close=True)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            try:
                async with session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                    return _refusal_of(answer.status)
            except aiohttp.ClientConnectorError:
                if closed:
                    return Refusal(
                        "its address is not public; the setting notification_networks would have to allow it"
                    )
                raise

    async def _write(self, spec: NotificationSpec, delivery: Delivery) -> Refusal | None:
        if self.mail is None:
            return Refusal("this service has no mail server; its setting smtp would have to name one")
        allowed = self.mail.domains
        if allowed and any(each.rpartition("@")[2].lower() not in allowed for each in spec.to):
            return Refusal(f"this service writes to {', '.join(allowed)} alone")
        await asyncio.to_thread(_hand_over, self.mail, _letter(self.mail, spec, delivery))
        return None


def reachable(address: str, networks: tuple[Network, ...] | None) -> bool:
    """Whether a tenant may have the service connect to an address: one of the internet, or of these networks."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        elif found in _NAT64:
            found = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    if networks is None or any(found in each for each in networks if each.version == found.version):
        return True
    return found.is_global and not found.is_multicast


def read_networks(text: str) -> tuple[Network, ...]:
    """Read networks with commas between them; raises InvalidInputError."""
    try:
        return tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if each.strip())
    except ValueError as error:
        raise InvalidInputError(
            f"{error}", field="notification_networks", expected="networks as 10.1.0.0/16, with commas between them"
        ) from error


def _refusal_of(status: int) -> Refusal | None:
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    moved = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    return Refusal(f"HTTP {status}" + ("; redirects are not followed" if moved else ""), gone=status == HTTPStatus.GONE)


def _letter(server: MailServer, spec: NotificationSpec, delivery: Delivery) -> EmailMessage:
    letter = EmailMessage()
    letter["From"], letter["To"] = server.sender, ", ".join(spec.to)
    letter["Subject"] = f"Job {delivery.job} is {delivery.phase}"
    letter["Date"] = formatdate(delivery.at)
    letter["Message-ID"] = f"<{delivery.id}@{server.sender.rpartition('@')[2]}>"
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content(f"{sentence(spec.tenant, delivery)}\n\nNotification {spec.name} of tenant {spec.tenant}.\n")
    return letter


def _hand_over(server: MailServer, letter: EmailMessage) -> None:
    """Runs in a thread: the library waits."""
    tls = ssl.create_default_context()
    if server.security == "tls":
        connection: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=SEND_SECONDS, context=tls)
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=SEND_SECONDS)
    with connection:
        if server.security == "starttls":
            connection.starttls(context=tls)
        if server.user and server.password_file is not None:
            connection.login(server.user, server.password_file.read_text(encoding="utf-8").strip())
        connection.send_message(letter)
