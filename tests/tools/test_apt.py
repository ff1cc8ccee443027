"""Packages are installed by one process after the other."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools import apt

APT_GET = """#!/bin/sh
mkdir "$0.lock" 2>/dev/null || { echo "Could not get lock" >&2; exit 100; }
while [ ! -e "$0.go" ]; do sleep 0.01; done
rmdir "$0.lock"
case "$*" in
  *update*) touch "$0.lists" ;;
  *missing*) echo "Unable to locate package missing" >&2; exit 100 ;;
  *) [ -e "$0.lists" ] ;;
esac
"""


@pytest.fixture
def apt_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "apt-get"
    program.write_text(APT_GET)
    program.chmod(0o755)
    monkeypatch.setattr(apt, "_SEARCH_PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(apt, "_LOCK", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return program


def test_those_who_miss_a_package_at_once_take_turns(apt_get: Path) -> None:
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(apt.install, ["containerd"]) for _ in range(4)]
        apt_get.with_suffix(".go").touch()
        assert [each.result() for each in asked] == [""] * 4


def test_package_that_nobody_has_is_named(apt_get: Path) -> None:
    apt_get.with_suffix(".go").touch()
    assert "Unable to locate package missing" in apt.install(["missing"])


def test_who_is_not_root_is_told_so(apt_get: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert apt.install(["containerd"]) == "only root can install packages"
