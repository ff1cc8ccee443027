"""What sends notifications, as the settings describe it."""

from collections.abc import Mapping
from pathlib import Path

from gangline.compose.clock import SystemClock
from gangline.controller.notifications.sending import MailServer, SecretReader, Sender, read_networks
from gangline.dialects import document

_FIELDS = ("host", "from", "port", "security", "user", "password_file", "domains")
_SECURITY = ("starttls", "tls", "none")
_PORTS = {"tls": 465, "none": 25}


def make_sender(secret_of: SecretReader, *, networks: str, smtp: Mapping[str, object], private: bool = False) -> Sender:
    """Make what sends, by the settings; one that is ``private`` may reach whatever its user can."""
    return Sender(
        secret_of=secret_of,
        clock=SystemClock(),
        networks=None if private else read_networks(networks),
        mail=read_mail_server(smtp),
    )


def read_mail_server(setting: Mapping[str, object]) -> MailServer | None:
    """Read the setting ``smtp``; raises InvalidInputError."""
    if not setting:
        return None
    given = document.plain({"smtp": dict(setting)}).fields(["smtp"])["smtp"]
    found = given.fields(_FIELDS)
    for name in ("host", "from"):
        if name not in found:
            raise given.missing(name, "text")
    security = found["security"].one_of(_SECURITY) if "security" in found else _SECURITY[0]
    return MailServer(
        host=found["host"].text(),
        sender=found["from"].text(),
        port=found["port"].integer() if "port" in found else _PORTS.get(security, 587),
        security=security,
        user=found["user"].text() if "user" in found else "",
        password_file=Path(found["password_file"].text()) if "password_file" in found else None,
        domains=tuple(each.text().lower() for each in found["domains"].items()) if "domains" in found else (),
    )
