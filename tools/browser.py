"""Debian's Chromium, driven by Playwright, for the tests of the dashboard and its screenshots."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

from tools import debian

AXE = Path(__file__).parents[1] / ".venv" / "web" / "axe.min.js"
"""What finds faults that keep people out; ``tools.web_assets`` brings it."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser; its package is installed where that is allowed, and without it the calling test is skipped."""
    program = debian.require_program("chromium", "chromium")
    with sync_playwright() as driver, TemporaryDirectory(ignore_cleanup_errors=True) as home:
        # As root, and in containers, Chromium's own sandbox cannot be made; it loads our pages alone. Its crash reports
        # would go to the user's home.
        browser = driver.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-dev-shm-usage"],
            env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": f"{home}/config", "XDG_CACHE_HOME": f"{home}/cache"},
        )
        try:
            yield browser
        finally:
            browser.close()
