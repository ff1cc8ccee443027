"""One service and one browser for all tests of the pages; every tab fails its test by what it writes to the console."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tools.browser import AXE, chromium
from tools.demo_site import DemoSite

PATIENCE = 60_000
"""Milliseconds in which anything must have happened, on a machine that is busy with other tests."""
_REFUSED = "the server responded with a status of 422"
"""What the browser says of a form that is shown again with what is wrong with it."""

OpenTab = Callable[..., Page]
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoSite]:
    with tempfile.TemporaryDirectory(prefix="gw") as sockets:  # paths of sockets are short
        site = DemoSite(tmp_path_factory.mktemp("site"), Path(sockets))
        try:
            site.fill()
            yield site
        finally:
            site.stop()


@pytest.fixture
def open_tab(browser: Browser, site: DemoSite) -> Iterator[OpenTab]:
    """Opens tabs that are logged in to the private pages, each as a browser of its own."""
    complaints: list[str] = []
    contexts = []

    def make(*, width: int = 1280, scheme: str = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        tab = context.new_page()
        tab.on("console", lambda each: each.type in ("error", "warning") and complaints.append(each.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(site.link())
        tab.wait_for_url("**/jobs")
        return tab

    yield make
    for context in contexts:
        context.close()
    assert [each for each in complaints if _REFUSED not in each] == []


def faults(tab: Page) -> list[str]:
    """What axe-core finds wrong with the page as it is."""
    tab.evaluate(AXE.read_text() + ";0")
    found = tab.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {each['help']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
