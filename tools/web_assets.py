"""Brings the npm packages that the dashboard's pages load, pinned by digest in ``requirements/web.toml``.

    python -m tools.web_assets        fetch what is missing; run by make setup

It is also the hook of the wheel's build, which puts them into the wheel. Nothing of them is committed. Without a
network both say so and go on: the pages then work without live updates and curves.
"""

import base64
import hashlib
import io
import os
import sys
import tarfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parents[1]
TABLE = "requirements/web.toml"
VENDOR = "src/gangline/web/assets/vendor"
FOR_TESTS = ".venv/web"
_SECONDS = 60


class AssetError(Exception):
    """A package that is not what was pinned."""


def fetch_all(root: Path = ROOT, *, tests: bool = True) -> list[Path]:
    """Fetch every package whose files are missing or of another version, and return where all files are."""
    table = tomllib.loads((root / TABLE).read_text())["package"]
    found: list[Path] = []
    for package in table:
        for_tests = bool(package.get("tests"))
        if for_tests and not tests:
            continue
        folder = root / (FOR_TESTS if for_tests else VENDOR)
        files = {inside: folder / name for inside, name in package["files"].items()}
        stamp = folder / f"{package['name']}.version"
        if not (_read(stamp) == package["integrity"] and all(file.is_file() for file in files.values())):
            _fetch(package, files)
            stamp.write_text(package["integrity"])
        found += files.values()
    return found


def _read(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


def _fetch(package: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    name, version = package["name"], package["version"]
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
    with urllib.request.urlopen(f"{registry}/{name}/-/{name}-{version}.tgz", timeout=_SECONDS) as answer:
        archive = answer.read()
    unpack(package, archive, files)


def unpack(package: Mapping[str, Any], archive: bytes, files: Mapping[str, Path]) -> None:
    """Write the wanted files of a package, if it is the one that was pinned."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != package["integrity"]:
        wanted = package["integrity"]
        raise AssetError(f"{package['name']} {package['version']} has the digest {found}, not {wanted}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for inside, target in files.items():
            member = members.extractfile(f"package/{inside}")
            if member is None:
                raise AssetError(f"{package['name']} {package['version']} has no file {inside}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(member.read())


class WebAssets(BuildHookInterface):  # type: ignore[type-arg]  # hatchling types its own configuration alone
    """The hook of the build: what is fetched goes into the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fetch before the files of the wheel are gathered."""
        if self.target_name != "wheel" or version == "editable":
            return
        try:
            fetch_all(Path(self.root), tests=False)
        except (urllib.error.URLError, TimeoutError) as error:
            self.app.display_warning(f"the dashboard's packages cannot be fetched, the wheel is without them: {error}")


def main() -> None:
    """Fetch everything."""
    try:
        fetch_all()
    except (urllib.error.URLError, TimeoutError) as error:
        print(
            f"the dashboard's packages cannot be fetched; it will be neither live nor drawn: {error}", file=sys.stderr
        )


if __name__ == "__main__":
    main()
