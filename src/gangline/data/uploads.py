"""From a directory to an object store: parts side by side, resumed after a kill, checked, and only what differs."""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .commits import Commit
from .lanes import StoreError, persist, run_side_by_side
from .manifests import CHUNK_BYTES, FOLDER, FileFacts, Patterns, chunk_check, file_check
from .progress import Meter
from .stores import PART_BYTES, Folder, tag_of
from .trees import Entry, Tree, check_is_file, listing_digest, open_followed
from .unpacking import PermanentError

_LANES = ((-1, 1 << 20, 16), (1 << 20, PART_BYTES, 4), (PART_BYTES, 1 << 63, 2))
"""For files above one size and up to another: how many at a time."""
_TRIES = 3
_UNNAMEABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and bytes that are no text: S3 itself would take some, and few tools could read them back."""


def upload_file(source: Path, target: Folder, meter: Meter, *, wanted_digest: str = "") -> FileFacts:
    """Store one file as one object: seen whole or not at all, and only if it has the digest, where one is named."""
    check_is_file(source)
    meter.expect(source.stat().st_size, 1)
    name = target.address.last_part
    facts = _Upload(target.parent(), meter, wanted_digest=wanted_digest).store(name, source)
    meter.digest = f"sha256:{facts.digest}"
    return facts


def upload_folder(source: Path, target: Folder, *, writer: str, patterns: Patterns, meter: Meter) -> str:
    """Store a directory's files below an address; returns what was left out and why.

    ``writer`` names who does this, the same for every try of it; two writers at one address are told of each other.
    """
    tree = Tree(source, keep_links=False)
    files = [entry for entry in tree if not entry.is_directory and patterns.match(entry.name)]
    if ours := [entry.name for entry in files if entry.name.startswith(FOLDER)]:
        raise PermanentError(f"{source / ours[0]}: the name {FOLDER} is Gangline's own in an object store")
    if bad := [entry.name for entry in files if _UNNAMEABLE.search(entry.name)]:
        raise PermanentError(f"{source}: an object store cannot hold the name {bad[0]!r}")
    sizes = {entry.name: entry.path.stat().st_size for entry in files}
    meter.expect(sum(sizes.values()), len(files))
    commit = Commit.begin(target, writer)
    present = {entry.name: entry.e_tag for entry in target.entries()} if commit.before.files else {}
    upload = _Upload(target, meter, commit, present)
    with commit.renewing():
        for above, size, lanes in _LANES:
            chosen = [entry for entry in files if above < sizes[entry.name] <= size]
            run_side_by_side((partial(upload.renew, entry) for entry in chosen), lanes)
    stored = commit.finish({entry.name: entry.e_tag for entry in target.entries()})
    meter.digest = listing_digest({name: facts.digest for name, facts in stored.items()})
    return tree.note()


@dataclass(frozen=True, slots=True)
class _Upload:
    """Stores files below one address."""

    target: Folder
    meter: Meter
    commit: Commit | None = None
    present: "dict[str, str] | None" = None
    wanted_digest: str = ""
    """What the content must have; what has another is not stored at all."""

    def renew(self, entry: Entry) -> None:
        """Store a file unless it is there, and note it."""
        assert self.commit is not None
        facts = self._unchanged(entry) or self.store(entry.name, entry.path)
        self.commit.stored(entry.name, facts)

    def store(self, name: str, path: Path) -> FileFacts:
        """Store a file; again if it changed while it was read, or the store failed."""
        for _ in range(_TRIES):
            before = _state(path)
            facts = persist(partial(self._put, name, path, before[0]), self.target.patience_seconds)
            if facts.size == before[0] and _state(path) == before:
                self.meter.add(0, files=1)
                return facts
            self.meter.add(-facts.size)
        raise StoreError(f"{path} changes while it is read")

    def _unchanged(self, entry: Entry) -> FileFacts | None:
        """What is known of a file that lies in the store already; it is read to know that it is the same."""
        facts = self.commit.before.files.get(entry.name) if self.commit else None
        if facts is None or (self.present or {}).get(entry.name) != facts.e_tag or not facts.e_tag:
            return None
        if entry.path.stat().st_size != facts.size:
            return None
        with open_followed(entry.path) as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != facts.digest:
                return None
        self.meter.add(facts.size, files=1)
        return facts

    def _put(self, name: str, path: Path, size: int) -> FileFacts:
        checks: list[int] = []
        digest = hashlib.sha256()
        moved = 0

        def chunks() -> Iterator[bytes]:
            nonlocal moved
            for chunk in _chunks(path):
                checks.append(chunk_check(chunk))
                digest.update(chunk)
                moved += len(chunk)
                self.meter.add(len(chunk))
                yield chunk
            if self.wanted_digest and digest.hexdigest() != self.wanted_digest:
                raise PermanentError(f"{path} changes while it is read")

        try:
            # A file that grew meanwhile is noticed by its state afterwards, and read no further than it was.
            if size <= PART_BYTES:
                tag = tag_of(self.target.write(name, b"".join(chunks())))
            else:
                tag = self.target.write_large(name, chunks(), size)
        except BaseException:
            self.meter.add(-moved)
            raise
        return FileFacts(moved, tag, digest.hexdigest(), file_check(checks))


def _chunks(path: Path) -> Iterator[bytes]:
    """A file in chunks; an empty one has one."""
    with open_followed(path) as file:
        chunk = file.read(CHUNK_BYTES)
        yield chunk
        while len(chunk) == CHUNK_BYTES:
            chunk = file.read(CHUNK_BYTES)
            if chunk:
                yield chunk


def _state(path: Path) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116  # a file descriptor is not at hand, and this is called for every file
    return status.st_size, status.st_mtime_ns
