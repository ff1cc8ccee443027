"""docs/architecture.md draws the tree as it is."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gangline"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def drawn() -> dict[str, set[str]]:
    """What the page says is in each of the larger packages."""
    (block,) = re.findall(r"```text\n(engines/kubernetes/\n.*?)```", PAGE, re.DOTALL)
    packages: dict[str, set[str]] = {}
    for line in filter(str.strip, block.splitlines()):
        if not line.startswith(" "):
            inside = packages.setdefault(line.rstrip("/"), set())
            continue
        for word in re.split(r"\s{2,}", line.strip()):
            if not re.fullmatch(r"\w+(\.py|/)", word):
                break  # from here on the line explains
            inside.add(word.rstrip("/"))
    return packages


@pytest.mark.parametrize("package", sorted(drawn()))
def test_a_package_has_what_the_page_draws_and_no_more(package: str) -> None:
    found = {
        item.name
        for item in (SOURCE / package).iterdir()
        if not item.name.startswith("__") and (item.is_dir() or item.suffix == ".py")
    }
    assert drawn()[package] == found


def test_the_layers_are_those_that_are_there() -> None:
    (block,) = re.findall(r"```text\n(testing\n.*?)```", PAGE, re.DOTALL)
    names = set(re.findall(r"[a-z]+", re.sub(r"\(.*?\)", "", block)))
    packages = {item.name.removesuffix(".py") for item in SOURCE.iterdir() if not item.name.startswith(("__", "py."))}
    assert names == packages - {"runtime", "ps", "serve"}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", PAGE))))
def test_every_path_of_the_page_exists(path: str) -> None:
    places = (ROOT, SOURCE)
    assert any((place / path).exists() for place in places)
