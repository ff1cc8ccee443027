"""The image that training jobs and Gangline itself run in on the test cluster.

It holds this machine's Python, Gangline and what Gangline depends on, and the shared libraries all of them need, at
paths that an ordinary user may read: the interpreter may well live in a home folder that nobody else can enter.
"""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gangline
from tools.cluster.host import program
from tools.cluster.images import GANGLINE, PYTHON, Entry, Image, busybox_layer

_USER = 1000
_HOME = "home/gangline"
_OMITTED = frozenset(
    {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "site-packages", "dist-packages"}
)
_ACCOUNTS = {
    "etc/passwd": Entry(text=f"root:x:0:0::/:/bin/sh\ngangline:x:{_USER}:{_USER}::/{_HOME}:/bin/sh\n"),
    "etc/group": Entry(text=f"root:x:0:\ngangline:x:{_USER}:\n"),
    "etc/nsswitch.conf": Entry(text="hosts: files dns\n"),
}
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Clients of object stores want some, even for a server without."""
_COMMAND = "#!/usr/local/bin/python3\nimport sys\nfrom gangline.cli.main import main\nsys.exit(main())\n"


def gangline_image() -> Image:
    """Describe what ``deploy/Dockerfile`` builds: as the other, with all that moves data and serves a team."""
    return replace(python_image(extras=("data", "grpc", "team")), name=GANGLINE)


def python_image(extras: tuple[str, ...] = ()) -> Image:
    """Describe the image; the layer that changes most often comes last."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages_at = f"usr/local/lib/{version}/site-packages"
    interpreter = _interpreter(version)
    packages = dict(_packages(packages_at, extras))
    libraries = _libraries([*interpreter.values(), *packages.values()])
    runtime = {
        **busybox_layer(),
        **_ACCOUNTS,
        **({str(_CERTIFICATES)[1:]: Entry(source=_CERTIFICATES)} if _CERTIFICATES.exists() else {}),
        **interpreter,
        **libraries,
        "tmp": Entry(mode=0o1777),
        _HOME: Entry(mode=0o755, owner=_USER),
        # Debian's own Python looks for packages under this name.
        f"usr/local/lib/{version}/dist-packages": Entry(link="site-packages"),
    }
    return Image(
        name=PYTHON,
        layers=[runtime, packages, dict(_own_code(packages_at))],
        command=["python3"],
        environment=["PATH=/usr/local/bin:/usr/bin:/bin", f"HOME=/{_HOME}", "PYTHONUNBUFFERED=1"],
        user=f"{_USER}:{_USER}",
        directory=f"/{_HOME}",
    )


def _interpreter(version: str) -> dict[str, Entry]:
    entries = {
        f"usr/local/bin/{version}": Entry(source=Path(sys.executable).resolve(), mode=0o755),
        "usr/local/bin/python3": Entry(link=version),
        "usr/local/bin/python": Entry(link=version),
    }
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        for file in _library_files(Path(folder).resolve()):
            entries[f"usr/local/lib/{version}/{file.relative_to(Path(folder).resolve())}"] = Entry(source=file)
    return entries


def _library_files(root: Path) -> Iterator[Path]:
    """Walk the standard library, past what no training job needs."""
    for folder, below, files in os.walk(root):
        below[:] = [name for name in below if name not in _OMITTED and not name.startswith("config-")]
        for name in files:
            if ".opt-" not in name and "_tkinter" not in name:
                yield Path(folder) / name


def _packages(at: str, extras: tuple[str, ...]) -> Iterator[tuple[str, Entry]]:
    for distribution in _dependencies("gangline", extras):
        for file in distribution.files or ():
            if ".." in file.parts or file.suffix == ".pyc":
                continue
            source = Path(str(distribution.locate_file(file)))
            if source.is_file():
                yield f"{at}/{file}", Entry(source=source)
                yield from _compiled(source, f"{at}/{file.parent}")


def _own_code(at: str) -> Iterator[tuple[str, Entry]]:
    package = Path(gangline.__file__).parent
    for file in package.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            yield f"{at}/{package.name}/{file.relative_to(package)}", Entry(source=file)
    distribution = importlib.metadata.distribution("gangline")
    for record in distribution.files or ():
        source = Path(str(distribution.locate_file(record)))
        if record.parts[0].endswith(".dist-info") and source.is_file():
            yield f"{at}/{record}", Entry(source=source)
    yield "usr/local/bin/gangline", Entry(text=_COMMAND, mode=0o755)


def _compiled(source: Path, folder: str) -> Iterator[tuple[str, Entry]]:
    """Take the compiled form along: an ordinary user in a container cannot write one and would compile every time."""
    if source.suffix == ".py":
        compiled = Path(importlib.util.cache_from_source(source))
        if compiled.is_file():
            yield f"{folder}/__pycache__/{compiled.name}", Entry(source=compiled)


def _dependencies(name: str, extras: tuple[str, ...]) -> list[importlib.metadata.Distribution]:
    """Find what a package needs at run time, and what that needs; what is not installed is not needed here."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        for requirement in importlib.metadata.requires(waiting.pop()) or ():
            match = re.match(r"[A-Za-z0-9._-]+", requirement)
            extra = re.search(r"extra == ['\"]([^'\"]+)", requirement)
            if match is None or (extra and extra[1] not in extras) or match.group() in found:
                continue
            try:
                found[match.group()] = importlib.metadata.distribution(match.group())
            except importlib.metadata.PackageNotFoundError:
                continue
            waiting.append(match.group())
    return list(found.values())


def _libraries(entries: list[Entry]) -> dict[str, Entry]:
    """Find the shared libraries that the entries need and do not bring, placed where the loader looks by itself."""
    sources = {entry.source for entry in entries if entry.source is not None}
    interpreter = Path(sys.executable).resolve()
    # `ldd` is a script that starts several processes per file; the loader it finds answers for the rest by itself.
    listing = subprocess.run([program("ldd"), str(interpreter)], capture_output=True, text=True, check=True).stdout
    loaders = set(re.findall(r"^\s*(/\S*ld-\S+) \(", listing, re.MULTILINE))
    for binary in sorted(str(path) for path in sources if ".so" in path.name):
        command = [*loaders, "--list", binary]
        listing += subprocess.run(command, capture_output=True, text=True, check=True).stdout
    needed = dict(re.findall(r"^\s*(\S+) => (/\S+) \(", listing, re.MULTILINE))
    home = Path(needed["libc.so.6"]).parent
    brought = {path.resolve() for path in sources}
    libraries = {
        str(home / name).lstrip("/"): Entry(source=Path(path).resolve(), mode=0o755)
        for name, path in needed.items()
        if Path(path).resolve() not in brought
    }
    for loader in loaders:
        libraries[loader.lstrip("/")] = Entry(source=Path(loader).resolve(), mode=0o755)
    return libraries
