"""What a release consists of: wheel, sdist, chart and, where a builder is at hand, the image."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
BUILDERS = ("docker", "podman", "buildah")


class ReleaseError(Exception):
    """What keeps this tree from being released."""


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a command and return its output; raise ReleaseError with all of it when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build_packages(output: Path) -> tuple[Path, Path]:
    """Build wheel and sdist; the same commit gives the same bytes."""
    when = run("git", "log", "-1", "--format=%ct").strip()
    env = {**os.environ, "SOURCE_DATE_EPOCH": when}
    run(sys.executable, "-m", "hatchling", "build", "-d", output, "-t", "sdist", "-t", "wheel", env=env)
    (wheel,), (sdist,) = list(output.glob("*.whl")), list(output.glob("*.tar.gz"))
    return wheel, sdist


def build_chart(output: Path, version: str, helm: Path | None) -> Path:
    """Package the chart; without Helm as the same archive that Helm would make."""
    run(sys.executable, ROOT / "deploy" / "render_chart.py", "--check")
    package = output / f"gangline-{version}.tgz"
    if helm is not None:
        run(helm, "lint", CHART)
        run(helm, "package", CHART, "--destination", output)
        return package
    with tarfile.open(package, "w:gz") as archive:
        archive.add(CHART, arcname="gangline")
    return package


def find_helm() -> Path | None:
    """Helm from the path, else the one that the tests build where Go is there, else none."""
    if found := shutil.which("helm"):
        return Path(found)
    if not shutil.which("go"):
        return None
    from tools.cluster.upstream import HELM, ensure_upstream

    return ensure_upstream(HELM, print) / "helm"


def build_image(version: str) -> str | None:
    """Build the image with whatever builder answers; None where there is none, or it cannot fetch the base image."""
    name = f"gangline:{version}"
    for builder in filter(shutil.which, BUILDERS):
        if subprocess.run([builder, "info"], capture_output=True, check=False).returncode:
            continue
        base = next(line.split()[1] for line in DOCKERFILE.read_text().splitlines() if line.startswith("FROM"))
        if subprocess.run([builder, "pull", base], capture_output=True, check=False).returncode:
            print(f"  {builder} cannot fetch {base}")
            continue
        run(builder, "build", "--file", DOCKERFILE, "--tag", name, ROOT)
        return name
    return None
