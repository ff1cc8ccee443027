"""The files of a tenant's models, by content, in a directory or in an object store.

    content/DIGEST          the bytes of a file
    versions/DIGEST.json    the files of one version by name; the digest is that of this very list
    lock                    in a directory: held by all who keep files, and alone by who removes what is used no more

A version is found by the digest of its list, which has the digests of its files: nothing of it can change unnoticed.
Where there are no locks, nothing is removed that was stored within the hour.
"""

import contextlib
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from .addresses import parse
from .credentials import StoreCredentials
from .moving import draft_name, install, remove
from .progress import Meter
from .shelves import FileShelf, Shelf, StoreShelf
from .stores import Folder
from .trees import Tree, check_is_file, open_followed
from .unpacking import PermanentError

SIGNATURE = "signature.json"
_UNREGISTERED_SECONDS = 3600.0
"""How long a version that no record has is kept: it may be about to be recorded."""
_MOST_SIGNATURE_BYTES = 64 << 10
_BLOCK = 1 << 20
_CONTENT, _VERSIONS = "content/", "versions/"


class KeptModel(NamedTuple):
    """A version whose files are kept."""

    digest: str
    size_bytes: int
    files: int
    signature: str = ""
    note: str = ""


class ContentPlace(Protocol):
    """Where content lies by its digest, beside the lists of versions on a shelf."""

    @property
    def shelf(self) -> Shelf:
        """Where the lists lie."""

    @property
    def has_locks(self) -> bool:
        """Whether nobody keeps files while somebody else removes some."""

    def locked(self, *, alone: bool) -> AbstractContextManager[object]:
        """Keep others from removing, or from keeping anything at all; raises BlockingIOError if that must wait."""

    def give(self, source: Path, meter: Meter) -> tuple[str, int]:
        """Keep a file, which the meter expects already; returns its digest and size."""

    def take(self, digest: str, target: Path, meter: Meter) -> str:
        """Write content, which the meter expects already, to a file; returns the digest of what was written."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """One tenant's files. Its place is its alone: nothing that is named here leads to another's."""

    place: ContentPlace

    @classmethod
    def in_directory(cls, folder: Path) -> "ModelFiles":
        """Return the files below a directory."""
        return cls(_Directory(FileShelf(folder)))

    @classmethod
    def at(cls, address: str, credentials: StoreCredentials) -> "ModelFiles":
        """Return the files at an address: a directory, or a folder of an object store."""
        place = parse(address)
        if place.in_object_store:
            return cls(_Bucket(StoreShelf(Folder.open(place, credentials))))
        return cls.in_directory(Path(place.local_path()))

    def keep(self, source: Path, meter: Meter | None = None) -> KeptModel:
        """Copy a file or a directory, and return what it is found by. What is here already is not copied again."""
        with self.place.locked(alone=False):
            files, note = self._keep_files(source, meter or Meter())
            if not files:
                raise PermanentError(f"{source} has no files; a model needs some")
            listed = json.dumps({"files": files}, sort_keys=True).encode()
            digest = hashlib.sha256(listed).hexdigest()
            self.place.shelf.write(_list(digest), listed)
        return KeptModel(digest, sum(size for _, size in files.values()), len(files), self._signature(files), note)

    def take(self, digest: str, target: Path, meter: Meter | None = None) -> None:
        """Copy a version into a directory, whole or not at all; what was damaged is refused."""
        draft = target.parent / draft_name(digest, str(target))
        files, meter = self.files(digest), meter or Meter()
        meter.expect(sum(size for _, size in files.values()), len(files))
        meter.digest = f"sha256:{digest}"
        try:
            remove(draft)
            for name, (content, size) in files.items():
                place = draft / name
                place.parent.mkdir(parents=True, exist_ok=True)
                if self.place.take(content, place, meter) != content or place.stat().st_size != size:
                    raise PermanentError(f"{name} of the model is damaged: it is not what was registered")
            install(draft, target)
        finally:
            with contextlib.suppress(OSError):
                remove(draft)

    def files(self, digest: str) -> dict[str, tuple[str, int]]:
        """Return digest and size of every file of a version, by name."""
        listed = self.place.shelf.read(_list(digest))
        if listed is None:
            raise PermanentError(f"the files of model version {digest[:12]} are not here")
        if hashlib.sha256(listed).hexdigest() != digest:
            raise PermanentError(f"the list of files of model version {digest[:12]} is damaged")
        return {name: (str(entry[0]), int(entry[1])) for name, entry in json.loads(listed)["files"].items()}

    def forget_all_but(self, digests: Collection[str], *, now: float) -> None:
        """Remove old versions that are not among these, and content that none needs.

        While somebody keeps files, that waits for the next time.
        """
        with contextlib.suppress(BlockingIOError), self.place.locked(alone=True):
            shelf, oldest = self.place.shelf, now - _UNREGISTERED_SECONDS
            found = {name: written for name, (_, written) in shelf.facts().items()}
            lists = {name for name in found if name.startswith(_VERSIONS)}
            gone = {name for name in lists if _digest_of(name) not in digests and found[name] < oldest}
            shelf.remove(sorted(gone))
            used = {content for name in lists - gone for content, _ in self.files(_digest_of(name)).values()}
            unused = {name for name in found if name.startswith(_CONTENT) and name.removeprefix(_CONTENT) not in used}
            # Where there is no lock, somebody may just be keeping what no list names yet.
            young = {name for name in unused if not self.place.has_locks and found[name] >= oldest}
            shelf.remove(sorted(unused - young))

    def _keep_files(self, source: Path, meter: Meter) -> tuple[dict[str, tuple[str, int]], str]:
        if not source.is_dir():
            check_is_file(source)
            meter.expect(source.stat().st_size, 1)
            return {source.name: self.place.give(source, meter)}, ""
        tree = Tree(source, keep_links=False)
        files = {entry.name: entry.path for entry in tree if not entry.is_directory}
        meter.expect(sum(path.stat().st_size for path in files.values()), len(files))
        return {name: self.place.give(path, meter) for name, path in files.items()}, tree.note()

    def _signature(self, files: dict[str, tuple[str, int]]) -> str:
        content, size = files.get(SIGNATURE, ("", 0))
        if not content or size > _MOST_SIGNATURE_BYTES:
            return ""
        try:
            return json.dumps(json.loads(self.place.shelf.read(_CONTENT + content) or b""))
        except ValueError as error:
            raise PermanentError(f"{SIGNATURE} of the model is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class _Directory:
    """Content in a directory of this machine."""

    shelf: FileShelf
    has_locks: bool = True

    @contextlib.contextmanager
    def locked(self, *, alone: bool) -> Iterator[None]:
        """Lock the directory; whoever removes does not wait for those who keep."""
        import fcntl  # only Unix has it, and only there are models kept

        self.shelf.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.shelf.folder / "lock").open("a") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
            yield

    def give(self, source: Path, meter: Meter) -> tuple[str, int]:
        """Copy a file. Hashed as it is copied: one that changes meanwhile is kept as it was read."""
        folder = self.shelf.folder / _CONTENT
        folder.mkdir(mode=0o700, exist_ok=True)
        draft = folder / f".draft-{os.getpid()}-{threading.get_ident()}"
        try:
            digest = _copied(source, draft, meter)
            size = draft.stat().st_size
            draft.replace(draft.with_name(digest))
        finally:
            draft.unlink(missing_ok=True)
        return digest, size

    def take(self, digest: str, target: Path, meter: Meter) -> str:
        """Copy a file out."""
        return _copied(self.shelf.folder / _CONTENT / digest, target, meter)


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Content in an object store."""

    shelf: StoreShelf
    has_locks: bool = False

    def locked(self, *, alone: bool) -> AbstractContextManager[object]:
        """There are no locks; what is young is not removed."""
        del alone
        return contextlib.nullcontext()

    def give(self, source: Path, meter: Meter) -> tuple[str, int]:
        """Store a file unless it has just been: what was stored long ago is stored again, so that nobody removes it."""
        from .uploads import upload_file

        with open_followed(source) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        folder = self.shelf.folder
        known = folder.head(_CONTENT + digest)
        if known is not None and time.time() - known.modified < _UNREGISTERED_SECONDS / 2:
            meter.add(known.size, files=1)
            return digest, known.size
        named = replace(folder, address=folder.address.below(_CONTENT + digest))
        meter.expect(-source.stat().st_size, -1)  # which whoever uploads it expects again
        return digest, upload_file(source, named, meter, wanted_digest=digest).size

    def take(self, digest: str, target: Path, meter: Meter) -> str:
        """Fetch content, chunks side by side."""
        from .downloads import Found, download

        folder = self.shelf.folder
        entry = folder.head(_CONTENT + digest)
        if entry is None:
            return ""
        draft = target.with_name(f".{digest}")
        meter.expect(-entry.size, -1)
        download(Found(folder, [entry]), draft, known=draft / "nothing", meter=meter)
        (draft / "files" / _CONTENT / digest).replace(target)
        remove(draft)
        with target.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _list(digest: str) -> str:
    return f"{_VERSIONS}{digest}.json"


def _digest_of(name: str) -> str:
    return name.removeprefix(_VERSIONS).removesuffix(".json")


def _copied(source: Path, target: Path, meter: Meter) -> str:
    """Copy a file and return the digest of what was written."""
    found = hashlib.sha256()
    with open_followed(source) as original, target.open("wb") as copy:
        while block := original.read(_BLOCK):
            found.update(block)
            copy.write(block)
            meter.add(len(block))
    meter.add(0, files=1)
    shutil.copymode(source, target)
    return found.hexdigest()
