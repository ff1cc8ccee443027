"""Image archives made without a registry or a builder, from what is on this machine.

An archive is a tar of ``manifest.json``, a configuration and one tar per layer, which every container runtime can
load. ``images`` knows the format; what goes into the Python image is decided in ``python_image``.
"""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tools.cluster.host import program
from tools.cluster.layout import cache_folder

PAUSE = "gangline.local/pause:1"
BUSYBOX = "gangline.local/busybox:1"
PYTHON = "gangline.local/python:1"
GANGLINE = "gangline.local/gangline:1"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "PATH=/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member of a layer: a file of this machine, a text, a link or a folder."""

    source: Path | None = None
    text: str | None = None
    link: str | None = None
    mode: int | None = None
    owner: int = 0

    def describe(self) -> str:
        """Name the content for the cache: cheap, and different whenever the content is."""
        if self.source is None:
            return repr((self.text, self.link, self.mode, self.owner))
        stat = self.source.stat()
        return f"{self.source}:{stat.st_size}:{stat.st_mtime_ns}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A name, layers of entries by path, and how the image runs."""

    name: str
    layers: Sequence[Mapping[str, Entry]]
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Sequence[str] = (_PATH,)
    user: str = ""
    directory: str = "/"
    labels: Mapping[str, str] = field(default_factory=dict)

    def archive(self) -> Path:
        """Return the image's archive, made anew only when something in it changed."""
        folder = cache_folder() / "images"
        folder.mkdir(parents=True, exist_ok=True)
        stem = self.name.replace("/", "-").replace(":", "-")
        target = folder / f"{stem}-{self._digest()}.tar"
        if not target.exists():
            for stale in folder.glob(f"{stem}-*.tar"):
                stale.unlink(missing_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                partial = Path(scratch) / "image.tar"
                self._write(partial, Path(scratch))
                partial.rename(target)
        return target

    def _digest(self) -> str:
        hasher = hashlib.sha256(json.dumps(self._configuration([])).encode())
        for layer in self.layers:
            for path, entry in sorted(layer.items()):
                hasher.update(f"{path}\0{entry.describe()}\0".encode())
        return hasher.hexdigest()[:16]

    def _configuration(self, digests: Sequence[str]) -> dict[str, Any]:
        return {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {
                "Entrypoint": list(self.entrypoint),
                "Cmd": list(self.command),
                "Env": list(self.environment),
                "User": self.user,
                "WorkingDir": self.directory,
                "Labels": dict(self.labels),
            },
            "rootfs": {"type": "layers", "diff_ids": list(digests)},
        }

    def _write(self, target: Path, scratch: Path) -> None:
        files = [scratch / f"layer{number}.tar" for number in range(len(self.layers))]
        for file, layer in zip(files, self.layers, strict=True):
            _write_layer(file, layer)
        digests = ["sha256:" + _digest_of(file) for file in files]
        configuration = json.dumps(self._configuration(digests)).encode()
        name = hashlib.sha256(configuration).hexdigest() + ".json"
        manifest = [{"Config": name, "RepoTags": [self.name], "Layers": [file.name for file in files]}]
        with tarfile.open(target, "w") as archive:
            _add_bytes(archive, name, configuration)
            for file in files:
                archive.add(file, arcname=file.name)
            _add_bytes(archive, "manifest.json", json.dumps(manifest).encode())


def pause_image(binaries: Path) -> Image:
    """Build the image that holds a pod's namespaces."""
    layer = {"pause": Entry(source=binaries / "pause", mode=0o755)}
    return Image(name=PAUSE, layers=[layer], entrypoint=["/pause"], user="65535:65535")


def busybox_image() -> Image:
    """Build an image with a shell and the usual small programs.

    Its programs do not resolve names (``nslookup`` excepted): a static program built with the GNU library cannot.
    """
    layer = {**busybox_layer(), "tmp": Entry(mode=0o1777)}
    return Image(name=BUSYBOX, layers=[layer], command=["/bin/sh"])


def busybox_layer() -> dict[str, Entry]:
    """List a shell and the usual small programs, all of them links to one static binary."""
    binary = program("busybox")
    applets = subprocess.run([binary, "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"bin/{applet}": Entry(link="busybox") for applet in applets if applet != "busybox"}
    return {**links, "bin/busybox": Entry(source=Path(binary).resolve(), mode=0o755)}


def _write_layer(target: Path, layer: Mapping[str, Entry]) -> None:
    folders = {str(parent) for path in layer for parent in PurePosixPath(path).parents if str(parent) != "."}
    with tarfile.open(target, "w") as archive:
        for path, entry in sorted({**{folder: Entry(mode=0o755) for folder in folders}, **layer}.items()):
            _add(archive, path, entry)


def _add(archive: tarfile.TarFile, path: str, entry: Entry) -> None:
    info = tarfile.TarInfo(path)
    info.uid = info.gid = entry.owner
    if entry.source is not None:
        stat = entry.source.stat()
        # The time is kept: Python checks its compiled files against it.
        info.size, info.mtime = stat.st_size, int(stat.st_mtime)
        info.mode = entry.mode or (stat.st_mode & 0o111) | 0o644
        with entry.source.open("rb") as file:
            archive.addfile(info, file)
    elif entry.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
        archive.addfile(info)
    elif entry.text is not None:
        content = entry.text.encode()
        info.size, info.mode = len(content), entry.mode or 0o644
        archive.addfile(info, io.BytesIO(content))
    else:
        info.type, info.mode = tarfile.DIRTYPE, entry.mode or 0o755
        archive.addfile(info)


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def _digest_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
