"""``python -m tools.release [--draft] [--output DIRECTORY]``: build a release of this tree and try every part of it.

The version is the package's own. A release is of a commit whose changelog is folded; ``--draft`` builds and tries
whatever is there. Nothing is published: the last lines say what is left to do.
"""

import argparse
import sys
import tempfile
import tomllib
from pathlib import Path

from gangline import __version__
from tools.changelog import ChangelogError, released
from tools.release.building import ROOT, ReleaseError, build_chart, build_image, build_packages, find_helm, run
from tools.release.trying import interpreters, try_chart, try_package, try_recipe

PROBLEMS = (ReleaseError, ChangelogError)


def main() -> None:
    """Build and try; exit with what is wrong."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("--draft", action="store_true", help="any tree, whatever its changelog says")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    try:
        _release(options.output, draft=options.draft)
    except PROBLEMS as error:
        sys.exit(f"error: {error}")


def check_tree(root: Path, version: str, *, draft: bool) -> None:
    """Raise unless the tree may be released as this version."""
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if declared != version:
        raise ReleaseError(f"pyproject.toml says {declared}, the package says {version}")
    if draft:
        return
    released(root, version)
    if changed := run("git", "status", "--porcelain", cwd=root).strip():
        raise ReleaseError(f"a release is of a commit, and these files are not in it:\n{changed}")


def _release(output: Path, *, draft: bool) -> None:
    check_tree(ROOT, __version__, draft=draft)
    output.mkdir(exist_ok=True)
    if left := sorted(path.name for path in output.iterdir()):
        raise ReleaseError(f"{output} is not empty: {', '.join(left)}")
    print(f"building gangline {__version__}")
    wheel, sdist = build_packages(output)
    helm = find_helm()
    chart = build_chart(output, __version__, helm)
    with tempfile.TemporaryDirectory(prefix="gangline-release-") as directory:
        _try_all(wheel, sdist, chart, helm, Path(directory))
    print("made:", *(f"  {path}" for path in sorted(output.iterdir())), sep="\n")
    print(f"left to do: git tag v{__version__}, push it, upload what was made, push the image")


def _try_all(wheel: Path, sdist: Path, chart: Path, helm: Path | None, directory: Path) -> None:
    numbers = iter(range(100))

    def scratch() -> Path:
        place = directory / str(next(numbers))
        place.mkdir()
        return place

    for python in interpreters():
        for package in (wheel, sdist):
            try_package(package, python, __version__, scratch())
            print(f"  {package.name} with {python}: installed, its version is right, it runs a job in an empty home")
    try_chart(chart, __version__, helm, scratch())
    print(f"  {chart.name}: {'linted, packaged and rendered by Helm' if helm else 'unpacked; there is no Helm here'}")
    if image := build_image(__version__):
        print(f"  {image}: built")
        return
    left_out = try_recipe(interpreters()[-1], __version__, scratch())
    print("  image: NOT BUILT, no builder here. Its first stage was tried in a directory, and what it made runs a job")
    for step in left_out:
        print(f"    not tried: {step}")


if __name__ == "__main__":
    main()
