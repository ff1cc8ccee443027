"""Logging in at an OpenID provider from a terminal (RFC 8628), and renewing what it gave; the standard library alone.

The provider's page is opened in any browser, here or elsewhere; meanwhile the provider is asked now and then whether
its user has agreed. What comes back is the ID token, which the service checks by the provider's public keys.
"""

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from gangline.errors import PermissionDeniedError, UnreachableError, WaitTimeoutError
from gangline.wire import LoginWays

_SECONDS = 20.0
_USUAL_PAUSE_SECONDS = 5.0
_SLOWER_SECONDS = 5.0
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_MOST_BYTES = 1 << 20


def log_in(ways: LoginWays, *, say: Callable[[str], None]) -> tuple[str, str]:
    """Return the ID token and the refresh token (empty if there is none) that the provider gives to its user."""
    endpoints = _discover(ways.issuer)
    begun = _post(endpoints, "device_authorization_endpoint", client_id=ways.client_id, scope=ways.scopes)
    where = begun.get("verification_uri_complete") or begun.get("verification_uri")
    say(f"open {where} in a browser and confirm the code {begun.get('user_code')}")
    pause = float(begun.get("interval") or _USUAL_PAUSE_SECONDS)
    deadline = time.monotonic() + float(begun.get("expires_in") or 300)
    waiting = threading.Event()
    while time.monotonic() < deadline:
        waiting.wait(pause)
        answer = _post(
            endpoints,
            "token_endpoint",
            grant_type=_GRANT,
            device_code=str(begun.get("device_code")),
            client_id=ways.client_id,
        )
        if "id_token" in answer:
            return str(answer["id_token"]), str(answer.get("refresh_token", ""))
        if answer.get("error") == "slow_down":
            pause += _SLOWER_SECONDS
        elif answer.get("error") != "authorization_pending":
            raise PermissionDeniedError(f"the provider refused: {_reason(answer)}")
    raise WaitTimeoutError("nobody confirmed the login in time")


def renew(ways: LoginWays, refresh_token: str) -> tuple[str, str]:
    """Return a new ID token, and the refresh token for the next time."""
    answer = _post(
        _discover(ways.issuer),
        "token_endpoint",
        grant_type="refresh_token",
        refresh_token=refresh_token,
        client_id=ways.client_id,
    )
    if "id_token" not in answer:
        raise PermissionDeniedError(f"the provider refused: {_reason(answer)}; log in again: 'gangline login'")
    return str(answer["id_token"]), str(answer.get("refresh_token", ""))


def _discover(issuer: str) -> dict[str, Any]:
    return _ask(urllib.request.Request(f"{issuer.rstrip('/')}/.well-known/openid-configuration"), issuer)


def _post(endpoints: dict[str, Any], name: str, **fields: str) -> dict[str, Any]:
    if not str(endpoints.get(name, "")).startswith(("https://", "http://")):
        raise PermissionDeniedError(f"the provider has no {name.replace('_', ' ')}: it cannot log in terminals")
    body = urllib.parse.urlencode(fields).encode()
    return _ask(urllib.request.Request(str(endpoints[name]), data=body), str(endpoints[name]))


def _ask(request: urllib.request.Request, address: str) -> dict[str, Any]:
    if not address.startswith(("https://", "http://")):
        raise UnreachableError(f"'{address}' is not the address of an OpenID provider")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # the scheme was checked
            found = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        found = _body_of(error)
    except (OSError, ValueError) as error:
        raise UnreachableError(f"the OpenID provider at {address} does not answer: {error}") from error
    return found if isinstance(found, dict) else {}


def _body_of(error: urllib.error.HTTPError) -> object:
    """A refusal has a body that says what it is."""
    try:
        return json.loads(error.read(_MOST_BYTES))
    except ValueError:
        return {"error": f"HTTP status {error.code}"}


def _reason(answer: dict[str, Any]) -> str:
    return str(answer.get("error_description") or answer.get("error") or "no reason given")
