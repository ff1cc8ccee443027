"""Small things at an address, whatever lies behind it: names, a few bytes, and removal."""

import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .addresses import parse
from .credentials import StoreCredentials
from .stores import Folder, MissingError
from .unpacking import PermanentError


class Shelf(Protocol):
    """What lies below an address."""

    def names(self) -> list[str]:
        """The path of every file."""

    def facts(self) -> dict[str, tuple[int, float]]:
        """How large every file is and when it was written, by its path."""

    def read(self, name: str) -> bytes | None:
        """A small file; None if there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Put a small file there: seen whole or not at all."""

    def remove(self, names: list[str]) -> None:
        """Remove files; what is not there is no error."""


def shelf_at(address: str, credentials: StoreCredentials) -> Shelf:
    """Open what an address stands for: an object store, or a directory of this machine."""
    place = parse(address)
    if place.in_object_store:
        return StoreShelf(Folder.open(place, credentials))
    if place.scheme == "file":
        return FileShelf(Path(place.local_path()))
    raise PermanentError(f"{address}: neither a directory nor an object store")


@dataclass(frozen=True, slots=True)
class StoreShelf:
    """What lies below an address of an object store."""

    folder: Folder

    def names(self) -> list[str]:
        """See Shelf."""
        return list(self.facts())

    def facts(self) -> dict[str, tuple[int, float]]:
        """See Shelf."""
        return {entry.name: (entry.size, entry.modified) for entry in self.folder.entries()}

    def read(self, name: str) -> bytes | None:
        """See Shelf."""
        try:
            return self.folder.read_small(name)[0]
        except MissingError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """See Shelf."""
        self.folder.write(name, content)

    def remove(self, names: list[str]) -> None:
        """See Shelf."""
        self.folder.delete(names)


@dataclass(frozen=True, slots=True)
class FileShelf:
    """What lies below a directory of this machine."""

    folder: Path

    def names(self) -> list[str]:
        """See Shelf."""
        return list(self.facts())

    def facts(self) -> dict[str, tuple[int, float]]:
        """See Shelf."""
        found = ((path, path.stat()) for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): (status.st_size, status.st_mtime) for path, status in found}

    def read(self, name: str) -> bytes | None:
        """See Shelf."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """See Shelf."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        draft.write_bytes(content)
        draft.replace(path)

    def remove(self, names: list[str]) -> None:
        """See Shelf."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        for folder in {(self.folder / name).parent for name in names}:
            if folder != self.folder and not any(path.is_file() for path in folder.rglob("*")):
                shutil.rmtree(folder, ignore_errors=True)
