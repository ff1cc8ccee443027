"""A token of a provider is renewed in time, and kept."""

import base64
import json
from pathlib import Path

import pytest

from gangline.errors import UnauthenticatedError
from gangline.sdk.login import renewing
from gangline.sdk.login.logins import Login, find_login, keep_login
from gangline.settings import Settings
from gangline.wire import LoginWays


def token(exp: float) -> str:
    body = base64.urlsafe_b64encode(json.dumps({"exp": exp}).encode()).decode().rstrip("=")
    return f"h.{body}.s"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"HOME": str(tmp_path), "GANGLINE_CONFIG": str(tmp_path / "config.yaml")})


def test_a_token_that_ends_soon_is_renewed_and_kept(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = token(10_000)
    monkeypatch.setattr(renewing, "_now", lambda: 1000.0)
    monkeypatch.setattr(renewing, "login_ways", lambda *_: LoginWays(issuer="https://id"))
    monkeypatch.setattr(renewing, "renew", lambda ways, refresh: (fresh, f"after-{refresh}"))
    keep_login(settings, "gpu", Login(address="https://gpu", token=token(1059), refresh_token="r1"))
    found = renewing.RenewedToken(settings, "gpu")
    assert [found.text(), found.text()] == [fresh, fresh]
    assert find_login(settings, "gpu") == Login(address="https://gpu", token=fresh, refresh_token="after-r1")


def test_one_that_is_still_good_is_used_as_it_is(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewing, "_now", lambda: 1000.0)
    keep_login(settings, "gpu", Login(address="https://gpu", token=token(1061), refresh_token="r1"))
    assert renewing.RenewedToken(settings, "gpu").text() == token(1061)


def test_whoever_logged_out_is_told_so(settings: Settings) -> None:
    with pytest.raises(UnauthenticatedError, match="logged out"):
        renewing.RenewedToken(settings, "gpu").text()


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "a.e30.c"])
def test_what_says_nothing_readable_has_expired(text: str) -> None:
    assert renewing.expires_at(text) == 0.0
