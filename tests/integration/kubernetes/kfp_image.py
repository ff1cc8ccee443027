"""An image with kfp and pip on top of the Python image, so that compiled steps find installed what they install."""

from dataclasses import replace
from pathlib import Path

from tests.environments import environment_with
from tests.pipelines.compiled import KFP
from tools.cluster import python_image
from tools.cluster.images import Entry, Image

NAME = "gangline.local/kfp:1"


def kfp_image() -> Image:
    """Describe the image."""
    below = python_image()
    kfp = environment_with(KFP).parent.parent
    pip = environment_with("pip==24.3.1").parent.parent
    folders = [
        *next(kfp.glob("lib/python*/site-packages")).glob("kfp*"),
        *next(pip.glob("lib/python*/site-packages")).glob("pip*"),
    ]
    layer = {
        f"usr/local/{file.relative_to(_root(file))}": Entry(source=file)
        for folder in folders
        for file in (folder.rglob("*") if folder.is_dir() else [folder])
        if file.is_file() and "__pycache__" not in file.parts
    }
    return replace(below, name=NAME, layers=[*below.layers, layer])


def _root(file: Path) -> Path:
    """Return the environment that a file is in."""
    return next(parent.parent for parent in file.parents if parent.name == "lib")
