"""The files of a job below one directory: listed, read, and put beside those that it has. Nothing leads out of it."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .tars import Packed, packed, put
from .trees import Entry, Tree
from .unpacking import PermanentError

FOLDERS = ("results", "checkpoints", "data")
"""What may be named: RESULT_DIR, CHECKPOINT_DIR and DATA_DIR of the job."""


class NoSuchFileError(PermanentError):
    """The job has nothing at a path."""


class FileFact(NamedTuple):
    """A file by its path in the job."""

    path: str
    size_bytes: int
    changed_at: float


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The directory with ``results``, ``checkpoints`` and ``data`` of a job."""

    folder: Path

    def inside(self, path: str) -> Path:
        """Where a path leads; it may not leave the directories of the job, not by a link either."""
        parts = [part for part in path.split("/") if part not in ("", ".")] or ["results"]
        if parts[0] not in FOLDERS or ".." in parts:
            raise PermanentError(
                f"'{path}' is not in the job; a path begins with results/, checkpoints/ or data/",
            )
        place = self.folder.joinpath(*parts).resolve()
        if self.folder.resolve() not in place.parents:
            raise PermanentError(f"'{path}' leads out of the job")
        return place

    def listed(self, path: str) -> Iterator[FileFact]:
        """Return every file at or below a path."""
        place = self._existing(path)
        prefix = self._name(place)
        entries = Tree(place, keep_links=False) if place.is_dir() else [Entry("", place)]
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # it went meanwhile: the job may still run
                status = entry.path.stat()
                if not entry.is_directory:
                    yield FileFact(f"{prefix}/{entry.name}".rstrip("/"), status.st_size, status.st_mtime)

    def packed(self, path: str) -> Packed:
        """Return a file or a directory to be sent."""
        with self._names_inside():
            return packed(self._existing(path))

    def draft(self, path: str) -> Path:
        """Name a directory for what arrives, on the same disk as its place: not all of a job need be on one."""
        top = self.folder.resolve() / self.inside(path).relative_to(self.folder.resolve()).parts[0]
        return top / f".gangline-draft-{os.getpid()}-{time.monotonic_ns()}"

    def put(self, path: str, arrived: Path) -> FileFact:
        """Give what arrived its place in the job, whole; return where it is."""
        place = self.inside(path)
        with self._names_inside():
            placed = put(arrived, place, into=path.endswith("/") or place.parent == self.folder.resolve())
        status = placed.stat()
        return FileFact(self._name(placed), status.st_size, status.st_mtime)

    def _existing(self, path: str) -> Path:
        place = self.inside(path)
        if not place.exists():
            raise NoSuchFileError(self._name(place))
        return place

    @contextlib.contextmanager
    def _names_inside(self) -> Iterator[None]:
        """Have a refusal name files by their paths in the job."""
        try:
            yield
        except NoSuchFileError:
            raise
        except PermanentError as error:
            raise PermanentError(str(error).replace(f"{self.folder.resolve()}/", "")) from error

    def _name(self, place: Path) -> str:
        return str(place.relative_to(self.folder.resolve()))
