"""The team services that a user is logged in to, each a context by name, in a file that only they can read."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gangline.errors import InvalidInputError
from gangline.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One service, and what opens it. ``fingerprint`` is that of a certificate which no authority has signed."""

    address: str
    token: str
    tenant: str = ""
    fingerprint: str = ""
    refresh_token: str = ""
    """What an OpenID provider takes for a new token, if it was one that gave this one."""


_decode = msgspec.json.Decoder(dict[str, Login]).decode


def logins_file(settings: Settings) -> Path:
    """Where they are kept: beside the settings, which may be shown to others."""
    return settings.config_file.with_name("logins.json")


def read_logins(settings: Settings) -> Mapping[str, Login]:
    """Return every login by the name of its context."""
    file = logins_file(settings)
    try:
        return _decode(file.read_bytes())
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise InvalidInputError(
            f"not readable: {error}", file=str(file), expected="what 'gangline login' wrote"
        ) from error


def find_login(settings: Settings, context: str) -> Login | None:
    """Return the login of a context; None if it is a cluster's, or nobody's."""
    return read_logins(settings).get(context) if context else None


def keep_login(settings: Settings, context: str, login: Login | None) -> None:
    """Write a login down, or forget it for None; the file is replaced whole, never half written."""
    file = logins_file(settings)
    kept = {name: each for name, each in read_logins(settings).items() if name != context}
    if login is not None:
        kept[context] = login
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(dir=file.parent, prefix=".logins-")  # mode 0600
    with os.fdopen(descriptor, "wb") as written:
        written.write(msgspec.json.format(msgspec.json.encode(kept)))
    Path(partial).replace(file)
