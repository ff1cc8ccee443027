"""The package of docs/adding-a-kind.md, written out and installed as its reader would have it."""

import tomllib
from pathlib import Path

from tests.docs.pages import ROOT, blocks_of

PAGE = "docs/adding-a-kind.md"


def write_package(place: Path) -> None:
    """Put the page's files into a folder that, on the path, is as good as installed."""
    for block in blocks_of(PAGE, (ROOT / PAGE).read_text()):
        if block.order == "file":
            (place / block.detail).write_text(block.text)
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    ((group, points),) = project["entry-points"].items()
    info = place / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = "\n".join(f"{name} = {target}" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")
