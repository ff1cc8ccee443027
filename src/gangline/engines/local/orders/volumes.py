"""Volumes of a pod as directories of this machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gangline.engines.local.orders.objects import Objects
from gangline.engines.local.system_users import file_rights
from gangline.errors import EngineError

Plain = Mapping[str, object]

_PRIVATE = 0o700
_OBJECTS = ("configMap", "secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One volume as the container sees it, and where it really is."""

    volume: str
    path: str
    directory: Path
    alone: bool = False
    """Whether only the path itself is meant, and nothing below it."""


def provide(
    container: Plain,
    volumes: Mapping[str, Plain],
    objects: Objects,
    *,
    own: Path,
    claims: Path,
    user: int | None = None,
) -> list[Mount]:
    """Make a directory of every volume that a container mounts.

    ``own`` is the replica's, for what lives and dies with it; ``claims`` keeps what volume claims stand for. Both are
    used with the rights of ``user``, and objects with those of the service.
    Raises EngineError for a volume that is not defined, or of a kind that this machine cannot provide.
    """
    mounts = []
    given = container.get("volumeMounts")
    for entry in given if isinstance(given, list) else []:
        name, path = str(entry.get("name")), str(entry.get("mountPath", "")).rstrip("/")
        if name not in volumes:
            raise EngineError(f"the volume '{name}' that is mounted at {path} is not defined")
        files = objects.files_of(volumes[name]) if any(kind in volumes[name] for kind in _OBJECTS) else None
        with file_rights(user):
            directory = _directory(name, volumes[name], files, own, claims)
            below = str(entry.get("subPath") or "")
            if below:
                directory = _inside(directory, below)
                if not directory.exists():
                    directory.mkdir(parents=True, mode=_PRIVATE)
        mounts.append(Mount(volume=name, path=path, directory=directory))
    return mounts


def _directory(name: str, volume: Plain, files: Mapping[str, bytes] | None, own: Path, claims: Path) -> Path:
    if "emptyDir" in volume or "ephemeral" in volume:
        return _made(_inside(own, name))
    if isinstance(host := volume.get("hostPath"), Mapping):
        return _host_path(Path(str(host.get("path"))), str(host.get("type") or ""))
    if isinstance(claim := volume.get("persistentVolumeClaim"), Mapping):
        return _made(_inside(claims, str(claim.get("claimName"))))
    if files is not None:
        return _written(_made(_inside(own, name)), files)
    kinds = ", ".join(kind for kind in volume if kind != "name") or "nothing"
    raise EngineError(f"the volume '{name}' is a kind that this machine cannot provide: {kinds}")


def _host_path(path: Path, kind: str) -> Path:
    if kind == "DirectoryOrCreate":
        return _made(path)
    if not path.exists():
        raise EngineError(f"{path} does not exist on this machine, and a volume of type hostPath needs it")
    return path


def _written(directory: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        file = _inside(directory, name)
        file.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(content)
    return directory


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
    return directory


def _inside(directory: Path, name: str) -> Path:
    """A path below a directory; names are other people's words and must not lead out of it."""
    path = directory / name
    if name.startswith("/") or ".." in Path(name).parts or not name:
        raise EngineError(f"'{name}' leads out of its volume")
    return path
