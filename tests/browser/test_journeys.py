"""What people do in the dashboard, done in a real browser."""

import sys

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenTab, faults
from tools.demo_site import DemoSite

pytestmark = pytest.mark.browser

TRAINING = f"""\
apiVersion: gangline.dev/v1
kind: Job
metadata: {{name: from-the-form}}
spec:
  command:
    - {sys.executable}
    - -uc
    - |
      import time
      from gangline import runtime
      for step in range(6000):
          runtime.report(loss=1 / (step + 1), step=step)
          print("at step", step)
          if runtime.stopping():
              break
          time.sleep(0.1)
  resources: {{cpu: 50m, memory: 64Mi}}
"""


def test_a_job_is_submitted_watched_searched_halted_and_resumed(open_tab: OpenTab, site: DemoSite) -> None:
    tab = open_tab()
    tab.get_by_role("link", name="Submit a job").click()
    editor = tab.get_by_label("The file")
    editor.fill(TRAINING.replace("cpu: 50m", "cpu: much"))
    tab.get_by_role("button", name="Submit").click()
    expect(tab.get_by_role("alert")).to_contain_text("Line 17")
    expect(tab.locator(".gutter .wrong")).to_have_text("17")
    editor.fill(TRAINING)
    tab.get_by_role("button", name="Submit").click()
    expect(tab.get_by_role("heading", name="from-the-form")).to_be_visible()
    expect(tab.locator(".headline")).to_contain_text("PROCESSING")
    expect(tab.locator(".chart h3")).to_have_text("loss")
    expect(tab.locator("#log-lines")).to_contain_text("at step 7")
    tab.get_by_label("Search", exact=True).fill("step 7")
    expect(tab.locator("#log-lines mark").first).to_have_text("step 7")
    expect(tab.locator("#log-lines > div", has_text="at step 3")).to_have_count(0)
    tab.get_by_role("button", name="Halt").click()
    expect(tab.locator(".headline")).to_contain_text("HALTED")
    tab.get_by_role("button", name="Resume").click()
    expect(tab.locator(".headline")).to_contain_text("PROCESSING")
    tab.get_by_text("Cancel…").click()
    expect(tab.locator(".asking[open] .command")).to_have_text("gangline cancel from-the-form --tenant default")
    tab.get_by_role("button", name="Cancel").click()
    expect(tab.locator(".headline")).to_contain_text("CANCELLED")
    assert site.client.get("from-the-form").phase == "CANCELLED"


def test_a_job_that_waits_says_why_and_starts_without_a_reload(open_tab: OpenTab, site: DemoSite) -> None:
    free = site.client.nodes()[0].capacity.cpu_millis
    site.submit("in-the-way", steps=100_000, pause=0.2, cpu=f"{free // 2 - 200}m", elastic=False)
    site.client.wait("in-the-way", phases={"PROCESSING"})
    site.submit("waits", steps=5, cpu=f"{free // 2 - 200}m", elastic=False)
    tab = open_tab()
    tab.goto(site.at("jobs/waits"))
    expect(tab.get_by_role("heading", name="Why it waits")).to_be_visible()
    expect(tab.locator("#live")).to_contain_text("Held by")
    tab.evaluate("window.notReloaded = true")
    site.client.cancel("in-the-way")
    expect(tab.locator(".headline")).to_contain_text("COMPLETED")
    expect(tab.get_by_role("heading", name="Why it waits")).to_have_count(0)
    assert tab.evaluate("window.notReloaded")


def test_two_jobs_are_selected_and_compared(open_tab: OpenTab, site: DemoSite) -> None:
    tab = open_tab()
    tab.goto(site.at("jobs?text=mnist&phase=completed"))
    tab.get_by_label("Select mnist-small").check()
    tab.get_by_label("Select mnist-large").check()
    with tab.expect_response("**/jobs*live=*"):
        pass  # what is selected stays selected when the list is brought up to date
    tab.get_by_role("button", name="Compare selected").click()
    expect(tab.locator(".chart h3")).to_have_text(["accuracy", "loss"])
    expect(tab.locator(".u-legend").first).to_contain_text("mnist-large")
    expect(tab.get_by_role("group", name="What differs in their files")).to_contain_text("spec.roles.worker.command")


def test_a_request_is_sent_to_a_service(open_tab: OpenTab, site: DemoSite) -> None:
    tab = open_tab()
    tab.goto(site.at("services/echo"))
    tab.get_by_label("Path").fill("")
    tab.get_by_label("Body").fill("")
    tab.get_by_role("button", name="Send").click()
    expect(tab.get_by_role("heading", name="Status 200")).to_be_visible()
    expect(tab.locator("#live pre")).to_contain_text("Directory listing")


def test_a_scale_is_previewed_and_files_are_shown(open_tab: OpenTab, site: DemoSite) -> None:
    tab = open_tab()
    tab.goto(site.at("jobs/mnist-live"))
    expect(tab.get_by_role("heading", name="0 checkpoints")).to_be_visible()  # loaded after the page
    tab.get_by_text("Scale…").click()
    tab.get_by_label("worker (1 to 4)").fill("3")
    tab.get_by_role("button", name="Preview").click()
    expect(tab.get_by_role("heading", name="What it would displace")).to_be_visible()
    expect(tab.locator(".command").last).to_contain_text("worker=3")
    assert not site.client.get("mnist-live").scale


def test_what_somebody_opened_stays_open_when_the_page_changes(open_tab: OpenTab, site: DemoSite) -> None:
    tab = open_tab()
    tab.goto(site.at("jobs/mnist-live"))
    tab.get_by_text("phases", exact=False).last.click()
    expect(tab.locator("#live details[open] li").first).to_be_visible()
    site.client.label("mnist-live", {"seen": "yes"})
    expect(tab.locator(".facts")).to_contain_text("seen=yes")
    expect(tab.locator("#live details[open] li").first).to_be_visible()


def test_several_jobs_are_cancelled_after_a_question(open_tab: OpenTab, site: DemoSite) -> None:
    for name in ("unwanted-1", "unwanted-2"):
        site.submit(name, steps=100_000, pause=0.5)
    tab = open_tab()
    tab.goto(site.at("jobs?text=unwanted"))
    tab.get_by_label("Select unwanted-1").check()
    tab.get_by_label("Select unwanted-2").check()
    tab.get_by_role("button", name="Cancel selected").click()
    tab.get_by_role("button", name="Cancel 2 jobs").click()
    tab.wait_for_url("**/jobs")
    for name in ("unwanted-1", "unwanted-2"):
        assert site.client.wait(name, timeout=60).phase == "CANCELLED"


def test_a_terminal_opens_in_a_running_replica(open_tab: OpenTab, site: DemoSite) -> None:
    tab = open_tab()
    tab.goto(site.at("jobs/mnist-live"))
    tab.get_by_role("row", name="worker-1").get_by_role("button", name="Open").click()
    expect(tab.get_by_role("heading", name="Terminal in worker-1")).to_be_visible()
    keys = tab.get_by_label("Terminal: what you type goes to the shell")
    expect(keys).to_be_focused()
    assert faults(tab) == []
    tab.keyboard.type(
        "echo $((6 * 7))-$GANGLINE_INDEX; tput cols > columns; printf '<img src=x>\\033[1;31mred\\033[0m\\n'"
    )
    tab.keyboard.press("Enter")
    screen = tab.locator("#terminal-screen")
    expect(screen).to_contain_text("42-1")
    expect(screen.locator("span.fore-1.bold", has_text="red")).to_be_visible()
    assert screen.locator("img").count() == 0
    tab.keyboard.type("ech")
    tab.keyboard.press("Tab")  # the shell's, to complete what was begun
    tab.keyboard.type("done; exit")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("status").filter(has_text="the shell has ended with 0")).to_be_visible()
    tab.keyboard.press("Shift+Tab")
    expect(keys).not_to_be_focused()
