"""Every page, as wide as a telephone and as a wall, in light and in dark."""

import pytest
from playwright.sync_api import expect

from gangline.web.application import all_entries
from tests.browser.conftest import OpenTab, faults
from tools.demo_site import HOSTILE, LONGEST, DemoSite
from tools.screenshots import PAGES

pytestmark = pytest.mark.browser
LOOKED_AT_TWICE = ("jobs", "jobs/mnist-live", "submit", "sweeps/rates")
"""The pages whose light colours axe-core looks at besides the dark ones; together they have every element."""


@pytest.mark.parametrize(
    ("width", "scheme"), [(360, "dark"), (2560, "light")], ids=["narrow and dark", "wide and light"]
)
def test_every_page_is_sound(open_tab: OpenTab, site: DemoSite, width: int, scheme: str) -> None:
    tab = open_tab(width=width, scheme=scheme)
    wrong = []
    for path in dict.fromkeys([*PAGES.values(), *(entry.path for entry in all_entries()), f"jobs/{LONGEST}"]):
        answer = tab.goto(site.at(path))
        if answer is None or answer.status != 200:
            wrong.append((path, "status", answer and answer.status))
        if (wide := tab.evaluate("document.documentElement.scrollWidth")) > width:
            wrong.append((path, "is wider than the window", wide))
        if width < 1000 or path in LOOKED_AT_TWICE:
            wrong += [(path, each) for each in faults(tab)]
    assert not wrong


def test_what_jobs_say_is_text(open_tab: OpenTab, site: DemoSite) -> None:
    tab = open_tab()
    tab.goto(site.at("jobs/hostile"))
    expect(tab.locator(".facts")).to_contain_text(f"team={HOSTILE}")
    expect(tab.locator("#log-lines")).to_contain_text(HOSTILE)
    assert tab.locator("main img").count() == 0


def test_the_keyboard_reaches_a_job_and_opens_it(open_tab: OpenTab, site: DemoSite) -> None:
    tab = open_tab()
    tab.goto(site.at("jobs?text=mnist-small"))
    tab.keyboard.press("Tab")
    expect(tab.locator(":focus")).to_have_text("Skip to content")
    tab.keyboard.press("Enter")
    for _ in range(20):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent") == "mnist-small":
            break
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="mnist-small")).to_be_visible()


def test_a_page_and_all_that_it_loads_is_small(open_tab: OpenTab, site: DemoSite) -> None:
    tab = open_tab()
    sizes: list[int] = []
    tab.on("response", lambda answer: sizes.append(int(answer.headers.get("content-length", "0"))))
    for path in ("jobs", "jobs/mnist-small", "compare?job=mnist-small&job=mnist-large"):
        sizes.clear()
        tab.goto(site.at(path), wait_until="load")
        assert sum(sizes) < 100_000, path
