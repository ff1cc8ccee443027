"""Logins at a real OpenID provider: the device flow, keys that are replaced meanwhile, groups that become roles."""

import html
import re
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from gangline.api.openid import OpenIdKeys, OpenIdSettings, read_openid
from gangline.errors import InvalidInputError
from gangline.model import Tenant
from gangline.model.team.access import Identity, Role
from gangline.sdk.login.device_flow import log_in, renew
from gangline.testing.builders import FakeClock
from gangline.wire import LoginWays
from tests.environments import node_modules_of

HERE = Path(__file__).parent / "provider"
GROUPS = {"ml-admins": {"vision": "admin", "speech": "viewer"}, "readers": {"vision": "viewer"}, "ops": "operator"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    command = ["node", "--no-warnings", str(HERE / "provider.mjs"), str(node_modules_of(HERE))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def agree(address: str, user: str) -> None:
    """Do what a person does in a browser: fill in every form until there is none."""
    jar = urllib.request.HTTPCookieProcessor(CookieJar())
    browser = urllib.request.build_opener(jar)
    page = browser.open(address, timeout=20)
    for _ in range(8):
        text = page.read().decode()
        form = re.search(r"<form[^>]*action=\"([^\"]+)\"[^>]*>(.*?)</form>", text, re.DOTALL)
        if form is None:
            return
        fields = {}
        for tag in re.findall(r"<(?:input|button)[^>]*>", form[2]):
            name = re.search(r'name="([^"]+)"', tag)
            value = re.search(r'value="([^"]*)"', tag)
            if name and name[1] != "abort":
                fields[name[1]] = html.unescape(value[1]) if value else ""
        fields |= {name: user for name in ("login", "password") if name in fields}
        place = urllib.parse.urljoin(page.geturl(), html.unescape(form[1]))
        page = browser.open(place, urllib.parse.urlencode(fields).encode(), timeout=20)
    raise AssertionError(text)


def logged_in(issuer: str, user: str) -> tuple[str, str]:
    said = list[threading.Thread]()

    def say(line: str) -> None:
        address = re.search(r"https?://\S+", line)
        assert address is not None
        said.append(threading.Thread(target=agree, args=(address[0], user)))
        said[-1].start()

    ways = LoginWays(issuer=issuer, client_id="gangline", scopes="openid email groups offline_access")
    found = log_in(ways, say=say)
    said[0].join()
    return found


def settings_for(issuer: str, /, **changes: Any) -> OpenIdSettings:
    found = read_openid({"issuer": issuer, "client_id": "gangline", "groups": GROUPS, **changes})
    assert found is not None
    return found


def rotate(issuer: str) -> None:
    urllib.request.urlopen(f"{issuer}/rotate", timeout=20).close()


class RealClock(FakeClock):
    """Begins now, for the provider lives in our time."""

    def __init__(self, claims: dict[str, Any]) -> None:
        super().__init__()
        self.advance(claims["iat"] - self.now())


def claims_of(token: str) -> dict[str, Any]:
    import jwt

    found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return found


async def test_somebody_logs_in_and_stays_known_while_keys_rotate(issuer: str) -> None:
    token, refresh = logged_in(issuer, "alice")
    clock = RealClock(claims_of(token))
    keys = OpenIdKeys(settings_for(issuer), clock)
    roles = {Tenant("vision"): Role.ADMIN, Tenant("speech"): Role.VIEWER}
    assert await keys.recognize(token) == Identity(name="alice@example.org", roles=roles)

    renewed, _ = renew(LoginWays(issuer=issuer, client_id="gangline"), refresh)
    assert await keys.recognize(renewed) is not None

    rotate(issuer)
    other, _ = logged_in(issuer, "eve")
    assert await keys.recognize(other) is None, "unknown keys are asked for at most every few seconds"
    clock.advance(11)
    assert await keys.recognize(other) == Identity(name="eve@example.org")
    assert await keys.recognize(token) is None, "the key that signed it is withdrawn"


async def test_only_what_the_provider_signed_for_us_and_in_time_is_believed(issuer: str) -> None:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    token, _ = logged_in(issuer, "alice")
    claims, clock = claims_of(token), RealClock(claims_of(token))
    keys = OpenIdKeys(settings_for(issuer), clock)
    assert await keys.recognize(token) is not None
    header, body, signature = token.split(".")
    forged_key = rsa.generate_private_key(65537, 2048)
    kid = jwt.get_unverified_header(token)["kid"]
    public = keys._keys[kid].key.public_numbers().n.to_bytes(256, "big")
    for wrong in (
        f"{header}.{body}.",
        f"{header}.{body}.{signature[:-6]}AAAAAA",
        jwt.encode(claims, forged_key, algorithm="RS256", headers={"kid": kid}),
        jwt.encode(claims, "", algorithm="none", headers={"kid": kid}),
        jwt.encode(claims, public, algorithm="HS256", headers={"kid": kid}),
        "a.b.c",
        "",
    ):
        assert await keys.recognize(wrong) is None
    for changed in ({"client_id": "somebody-else"}, {"issuer": f"{issuer}/"}):
        assert await OpenIdKeys(settings_for(issuer, **changed), clock).recognize(token) is None
    clock.advance(claims["exp"] - clock.now() + 31)
    assert await keys.recognize(token) is None


async def test_a_provider_that_is_away_lets_nobody_in() -> None:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    token = jwt.encode({"sub": "x"}, rsa.generate_private_key(65537, 2048), algorithm="RS256", headers={"kid": "k"})
    assert await OpenIdKeys(settings_for("http://127.0.0.1:9"), FakeClock()).recognize(token) is None


@pytest.mark.parametrize("name", ["token:chief", "root\n", "\x1b[2K"])
def test_nobody_chooses_a_name_that_passes_for_a_token_or_a_line(name: str) -> None:
    settings = OpenIdSettings(issuer="i", client_id="c", name_claim="preferred_username")
    assert settings.identity_of({"sub": "u1", "preferred_username": name}).name == "u1"


def test_groups_become_the_highest_of_their_roles() -> None:
    settings = settings_for("https://id")
    both = settings.identity_of({"sub": "1", "groups": ["readers", "ml-admins", "unknown"], "email": "a@b"})
    assert both.roles == {Tenant("vision"): Role.ADMIN, Tenant("speech"): Role.VIEWER}
    assert settings.identity_of({"sub": "1", "groups": ["ops"]}).operator
    assert settings.identity_of({"sub": "1", "groups": "ops"}) == Identity(name="1")
    unverified = settings.identity_of({"sub": "1", "email": "boss@b", "email_verified": False})
    assert unverified.name == "1"


@pytest.mark.parametrize(
    ("wrong", "want_field"),
    [
        ({"issuer": "https://id"}, "openid.client_id"),
        ({"issuer": "https://id", "client_id": "x", "secret": "y"}, "openid.secret"),
        ({"issuer": "https://id", "client_id": "x", "groups": {"g": {"vision": "operator"}}}, "openid.groups.g"),
        ({"issuer": "https://id", "client_id": "x", "groups": {"g": "member"}}, "openid.groups.g"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(wrong: dict[str, Any], want_field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_openid(wrong)
    assert refused.value.field == want_field
