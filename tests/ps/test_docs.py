"""The manual mentions every setting, limit and public name."""

from dataclasses import fields
from pathlib import Path

import pytest

from gangline import ps

MANUAL = (Path(__file__).parents[2] / "docs" / "parameter-server.md").read_text()


@pytest.mark.parametrize("name", [field.name for kind in (ps.Settings, ps.Limits) for field in fields(kind)])
def test_every_setting_is_in_the_manual(name: str) -> None:
    assert f"{name}`" in MANUAL


@pytest.mark.parametrize("name", ["connect", "serve", "resize", "Settings"])
def test_every_call_is_in_the_manual(name: str) -> None:
    assert f"ps.{name}" in MANUAL


@pytest.mark.parametrize("name", [name for name in vars(ps.Session) if not name.startswith("_")])
def test_every_method_of_a_session_is_in_the_manual(name: str) -> None:
    internal = {"abandon", "close", "step"}

    assert name in internal or f"session.{name}" in MANUAL
