"""Takes the pictures of the dashboard that lie in ``docs/images``: ``make screenshots``."""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from tools.browser import chromium
from tools.demo_site import DemoSite

TARGET = Path(__file__).parents[1] / "docs" / "images" / "dashboard"
PAGES = {
    "jobs": "jobs",
    "job": "jobs/mnist-live",
    "waiting": "jobs/far-too-large",
    "compare": "compare?job=mnist-small&job=mnist-large",
    "submit": "submit",
    "fields": "submit/fields",
    "sweep": "sweeps/rates",
    "pipeline": "pipelines/nightly",
    "service": "services/echo",
    "workspaces": "workspaces",
    "workspace": "workspaces/sketches",
    "queues": "queues",
    "queue": "queues/default",
    "nodes": "nodes",
    "schedule": "schedule?hours=1",
    "what-if": "what-if",
    "use": "use",
    "model": "models/mnist",
    "stores": "stores",
    "volumes": "volumes",
    "audit": "audit",
    "tokens": "tokens",
}
"""Each picture, and the page that it shows."""
_WITHOUT_PATHS = """pairs => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    for (const [path, word] of pairs)
      texts.currentNode.nodeValue = texts.currentNode.nodeValue.replaceAll(path, word);
}"""
"""What makes the pictures the same wherever they are taken: no paths of the machine."""
_STILL = "document.body.addEventListener('tick', (tick) => tick.stopImmediatePropagation(), true)"
"""What keeps a page from being brought up to date while it is pictured."""
_WIDTH, _MOST_PIXELS, _COLOURS = 1100, 1500, 48


def take(tab: Page, site: DemoSite, target: Path) -> None:
    """Take every picture."""
    target.mkdir(parents=True, exist_ok=True)
    for name, path in PAGES.items():
        tab.set_viewport_size({"width": _WIDTH, "height": 500})  # the page before may have been taller
        tab.goto(site.at(path))
        tab.wait_for_timeout(1500 if name in ("job", "compare") else 300)
        tall = min(tab.evaluate("document.documentElement.scrollHeight"), _MOST_PIXELS)
        tab.set_viewport_size({"width": _WIDTH, "height": max(tall, 500)})
        tab.evaluate(_STILL)
        tab.wait_for_timeout(800)  # what was asked for before has come
        tab.evaluate(_WITHOUT_PATHS, [[sys.executable, "python"], [f"{site.folder}/", ""]])
        picture = Image.open(io.BytesIO(tab.screenshot()))
        picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(target / f"{name}.png", optimize=True)
        sys.stdout.write(f"{name}: {(target / f'{name}.png').stat().st_size // 1000} kB\n")


def main() -> None:
    """Start a service of its own, fill it, and take the pictures."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(prefix="gs") as sockets:
        site = DemoSite(Path(folder), Path(sockets))
        try:
            site.fill()
            with chromium() as browser:
                tab = browser.new_page(viewport={"width": _WIDTH, "height": 700})
                tab.goto(site.link())
                tab.wait_for_url("**/jobs")
                take(tab, site, target)
        finally:
            site.stop()


if __name__ == "__main__":
    main()
