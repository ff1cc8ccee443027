"""A token that an OpenID provider gave, renewed in time and kept for the next command."""

import base64
import json
import threading
import time
from dataclasses import replace

from gangline.errors import UnauthenticatedError
from gangline.sdk.login.device_flow import renew
from gangline.sdk.login.logging_in import login_ways
from gangline.sdk.login.logins import Login, find_login, keep_login
from gangline.settings import Settings

_EARLIER_SECONDS = 60.0


class RenewedToken:
    """The token of one login; threads share it."""

    def __init__(self, settings: Settings, context: str) -> None:
        self._settings = settings
        self._context = context
        self._lock = threading.Lock()

    def text(self) -> str:
        """Return a token that is still good for a while."""
        with self._lock:
            # Another command may have renewed it: a provider takes each refresh token once.
            login = find_login(self._settings, self._context)
            if login is None:
                raise UnauthenticatedError(f"you are logged out of '{self._context}'; log in again: 'gangline login'")
            return login.token if expires_at(login.token) > _now() + _EARLIER_SECONDS else self._renewed(login)

    def _renewed(self, login: Login) -> str:
        ways = login_ways(login.address, login.fingerprint, self._settings)
        token, refresh = renew(ways, login.refresh_token)
        kept = replace(login, token=token, refresh_token=refresh or login.refresh_token)
        keep_login(self._settings, self._context, kept)
        return token


def expires_at(token: str) -> float:
    """Return when a token says that it expires; one that says nothing readable has expired."""
    try:
        body = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["exp"]
        return float(found)
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def _now() -> float:
    return time.time()  # noqa: TID251  # compared with the provider's clock
