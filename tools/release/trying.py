"""Installs what was built into places of its own and uses it as a newcomer would."""

import os
import shlex
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.release.building import DOCKERFILE, ROOT, ReleaseError, run

LOCK = ROOT / "requirements" / "base.lock"
PROGRAM = "from gangline import runtime; print(runtime.current().role, 6 * 7)"
IN_THE_IMAGE = """
import grpc, obstore
from gangline.sweeps import sampler_named
print(type(sampler_named("tpe")).__name__, type(sampler_named("cma-es")).__name__)
"""
"""What a controller of a cluster does without anybody installing more: search, hear trials push, reach stores."""


def interpreters() -> list[Path]:
    """The system's Python and the one on the path, if they are two."""
    # A program on the path may be a wrapper, of pyenv for one, that starts the interpreter proper.
    found = (shutil.which(name) for name in ("/usr/bin/python3", "python3"))
    real = (
        run(path, "-c", "import os, sys; print(os.path.realpath(sys.executable))").strip() for path in found if path
    )
    return [Path(path) for path in dict.fromkeys(real)]


def try_package(package: Path, python: Path, version: str, scratch: Path) -> None:
    """Install a wheel or sdist with its pinned dependencies, ask its version, and run a job in an empty home."""
    environment = scratch / "environment"
    uv = (sys.executable, "-m", "uv")
    run(*uv, "venv", "--quiet", "--python", python, environment)
    install = (*uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python")
    run(*install, "--require-hashes", "--requirement", LOCK)
    run(*install, "--no-deps", package)
    try_program(environment / "bin", version, scratch)


def try_program(programs: Path, version: str, scratch: Path) -> None:
    """Use the installed command as its user would, with nothing set but a home that is empty."""
    home, sockets = scratch / "home", scratch / "run"
    home.mkdir()
    sockets.mkdir(mode=0o700)
    path = f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin"
    env = {"PATH": path, "HOME": str(home), "XDG_RUNTIME_DIR": str(sockets), "LANG": "C.UTF-8"}
    gangline = programs / "gangline"
    _expect(run(gangline, "--version", cwd=home, env=env).strip(), f"gangline {version}")
    try:
        submit = ("submit", "--name", "hello", "--workers", "2", "--cpu", "100m", "--no-code", "--wait", "--")
        run(gangline, *submit, "python", "-c", PROGRAM, cwd=home, env=env)
        lines = sorted(run(gangline, "logs", "hello", cwd=home, env=env).splitlines())
        _expect(lines, ["[worker-0] worker 42", "[worker-1] worker 42"])
    finally:
        run(gangline, "server", "stop", cwd=home, env=env)


def try_chart(package: Path, version: str, helm: Path | None, scratch: Path) -> None:
    """Unpack the chart and, where Helm is there, render it as ``helm install`` would."""
    with tarfile.open(package) as archive:
        archive.extractall(scratch, filter="data")
    described = yaml.safe_load((scratch / "gangline" / "Chart.yaml").read_text())
    _expect((described["version"], described["appVersion"]), (version, version))
    if helm is None:
        return
    text = run(helm, "template", "gangline", package, "--include-crds", "--set", "image=example/gangline:1")
    kinds = {each["kind"] for each in yaml.safe_load_all(text) if each}
    if not {"Deployment", "ClusterRole", "CustomResourceDefinition"} <= kinds:
        raise ReleaseError(f"the chart renders {sorted(kinds)} only")


def try_recipe(python: Path, version: str, scratch: Path) -> list[str]:
    """Carry out the first stage of the Dockerfile in a directory and use what it made; return the steps left out.

    For machines without an image builder: paths of the image become paths below the directory, and the base image is
    this machine with the given Python.
    """
    left_out = []
    for stage, (verb, rest) in enumerate_stages(DOCKERFILE.read_text()):
        if stage == 1 and verb == "COPY":
            *sources, target = rest.split()
            for source in sources:
                _copy(ROOT / source, Path(f"{scratch}{target}"))
        elif stage == 1 and verb == "RUN":
            moved = rest.replace("/source", f"{scratch}/source").replace("/opt/", f"{scratch}/opt/")
            programs = scratch / "python"
            programs.mkdir()
            (programs / "python").symlink_to(python)
            run("sh", "-euc", moved, env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
        else:
            left_out.append(f"{verb} {rest}")
    entry = next(rest for _, (verb, rest) in enumerate_stages(DOCKERFILE.read_text()) if verb == "ENTRYPOINT")
    _expect(shlex.split(entry.strip("[]")), ["gangline"])
    programs = scratch / "opt" / "gangline" / "bin"
    try_program(programs, version, scratch)
    _expect(run(programs / "python", "-c", IN_THE_IMAGE).split(), ["OptunaSampler"] * 2)
    return left_out


def enumerate_stages(text: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """Return the instructions of a Dockerfile, each with the number of its stage."""
    stage = 0
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    for line in lines:
        verb, rest = line.split(maxsplit=1)
        stage += verb == "FROM"
        yield stage, (verb, " ".join(rest.split()))


def _copy(source: Path, target: Path) -> None:
    """What COPY does: the content of a directory, a file into a directory."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise ReleaseError(f"expected {wanted!r}, found {found!r}")
