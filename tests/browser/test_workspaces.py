"""Notebooks and TensorBoards, opened from the dashboard in a real browser."""

import os
import tomllib
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import gangline
from gangline.model import DEFAULT_TENANT, Resources
from gangline.model.kinds.workspace import Tool, WorkspaceSpec, tensorboard_of
from tests.browser.conftest import OpenTab
from tests.environments import environment_with
from tools.demo_site import DemoSite

pytestmark = pytest.mark.browser
ROOT = Path(gangline.__file__).parents[2]
JUPYTERLAB, TENSORBOARD = "jupyterlab==4.6.6", "tensorboard==2.21.0"
SLOW = 240_000
"""Milliseconds that a JupyterLab may take to begin, on a machine that is busy with other tests."""
LOOK = 500
CELL = """\
weight = 0.0
for step in range(50):
    weight -= 0.2 * (weight - 3.0)
found = f"trained {weight:.3f}"
!python -m gangline submit --name from-the-notebook --cpu 50m --memory 64Mi -- echo "{found}"
"""


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """The environment of somebody who has JupyterLab and TensorBoard installed beside Gangline."""
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    # TensorBoard still needs what setuptools gave up in version 81.
    python = environment_with(JUPYTERLAB, TENSORBOARD, "setuptools<81", *ours)
    path = f"{python.parent}:{os.environ['PATH']}"
    return {"PATH": path, "VIRTUAL_ENV": str(python.parent.parent), "PYTHONPATH": str(ROOT / "src")}


def start(site: DemoSite, name: str, tool: Tool, variables: dict[str, str], **more: object) -> None:
    needs = Resources(cpu_millis=100, memory_mib=1024)
    site.client.workspaces.create(WorkspaceSpec(name=name, tool=tool, resources=needs, env=variables, **more))  # type: ignore[arg-type]


def opened(tab: Page, site: DemoSite, name: str) -> Page:
    """Open a workspace from its page in the dashboard, as soon as it is ready."""
    tab.goto(site.at("workspaces", name))
    with tab.expect_popup(timeout=SLOW) as popup:
        tab.get_by_role("link", name="Open", exact=True).click(timeout=SLOW)
    popup.value.set_default_timeout(SLOW)
    return popup.value


def test_a_notebook_trains_submits_a_job_and_comes_back_with_its_files(
    open_tab: OpenTab, site: DemoSite, variables: dict[str, str]
) -> None:
    start(site, "lab", Tool.NOTEBOOK, variables)
    tab = open_tab()
    lab = opened(tab, site, "lab")
    lab.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
    expect(lab.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=SLOW)  # a kernel listens
    cell = lab.locator(".jp-Notebook .jp-Cell .cm-content").first
    cell.click()
    lab.keyboard.insert_text(CELL)
    lab.keyboard.press("Shift+Enter")
    expect(lab.locator(".jp-OutputArea-output").first).to_contain_text("from-the-notebook", timeout=SLOW)
    site.client.wait("from-the-notebook", timeout=120)
    assert [line.text for line in site.client.logs("from-the-notebook")] == ["trained 3.000"]
    lab.keyboard.press("Control+s")
    lab.locator(".jp-Dialog input").first.fill("study.ipynb")  # the first time it asks for a name
    lab.locator(".jp-Dialog .jp-mod-accept").click()
    expect(lab.locator(".jp-mod-dirty")).to_have_count(0)
    address = lab.url
    tab.get_by_role("button", name="Stop").click()
    expect(tab.locator(".facts")).to_contain_text("stopped")
    lab.goto(address)
    expect(lab.get_by_role("heading", name="Workspace")).to_be_visible()
    tab.get_by_role("button", name="Start").click()
    lab = opened(tab, site, "lab")
    lab.locator(".jp-DirListing-item", has_text="study.ipynb").dblclick()
    expect(lab.locator(".jp-Notebook .cm-content").first).to_contain_text("weight -= 0.2")
    tab.close()
    site.client.workspaces.delete("lab")


def test_a_tensorboard_shows_what_jobs_reported_and_wrote(
    open_tab: OpenTab, site: DemoSite, variables: dict[str, str]
) -> None:
    name = tensorboard_of(DEFAULT_TENANT, ("mnist-small", "mnist-large")).name
    start(site, name, Tool.TENSORBOARD, variables, jobs=("mnist-small", "mnist-large"))
    tab = open_tab()
    tab.goto(site.at("jobs?text=mnist&phase=completed"))
    tab.get_by_label("Select mnist-small").check()
    tab.get_by_label("Select mnist-large").check()
    tab.get_by_role("button", name="TensorBoard of selected").click()  # the same jobs: the one that is there
    tab.wait_for_url(f"**/workspaces/{name}")
    board = opened(tab, site, name)
    board.locator("tb-webapp").wait_for(state="attached")  # past the page that leads there
    wanted, runs = {"mnist-small/worker-0", "mnist-large/worker-1"}, set[str]()
    for _ in range(SLOW // LOOK):  # it reads event files after it began to answer, one run after the other
        runs = set(board.evaluate("fetch('/data/runs').then(answer => answer.json())"))
        if wanted <= runs:
            break
        board.wait_for_timeout(LOOK)
    assert wanted <= runs
    board.reload()
    expect(board.get_by_text("mnist-small/worker-0").first).to_be_visible()
    expect(board.get_by_text("mnist-large/worker-1").first).to_be_visible()
    expect(board.locator("scalar-card").first.locator("canvas, svg").first).to_be_visible()
    tab.close()  # it would ask for a page that is gone
    site.client.workspaces.delete(name)
