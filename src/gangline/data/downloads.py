"""From an object store to a directory: ranges side by side, resumed after a kill, checked, and only what differs.

What comes is written below a draft, with a journal of the chunks that have arrived. A later try finds the draft, checks
those chunks and asks only for the others. Nothing is at its place until everything is there.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from .cache import Cache
from .journal import Journal
from .lanes import StoreError, run_side_by_side
from .manifests import CHUNK_BYTES, CLAIM, FOLDER, MANIFEST, Manifest, Patterns, chunk_check, chunk_count, file_check
from .progress import Meter
from .stores import ChangedError, Entry, Folder, MissingError
from .trees import listing_digest
from .unpacking import PermanentError

_LANES = ((-1, 1 << 20, 16, 1), (1 << 20, CHUNK_BYTES, 4, 1), (CHUNK_BYTES, sys.maxsize, 2, 2))
"""For objects above one size and up to another: how many at a time, and how many chunks of each. With the pieces that
the library joins, this is what bounds the memory of a mover: twice four chunks."""
_STRETCH_CHUNKS = 8
"""How many chunks one request fetches at most, where several fetch parts of one object."""
_SMALL_BYTES = 1 << 20
"""Objects up to this size are asked for at once; the others are written as they come."""
_TRIES = 3
_MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Found:
    """What an address stands for: objects of a folder, and what is written down of them."""

    folder: Folder
    entries: list[Entry]
    manifest: Manifest = field(default_factory=Manifest)
    manifest_tag: str = ""
    is_one_object: bool = False

    def digest(self) -> str:
        """What tells this content from any other: of a folder that Gangline wrote, as if its files were here."""
        facts = [self.manifest.files.get(entry.name) for entry in self.entries]
        known = {entry.name: fact.digest for entry, fact in zip(self.entries, facts, strict=True) if fact is not None}
        if known and all(fact and fact.e_tag == entry.e_tag for entry, fact in zip(self.entries, facts, strict=True)):
            return listing_digest(known)
        return listing_digest({entry.name: f"{entry.size} {entry.e_tag}" for entry in self.entries}, kind="tags")

    def check_is_whole(self) -> None:
        """Refuse what was fetched from a folder while somebody wrote it: some is of before and some of after."""
        if self.is_one_object:
            return
        if self.folder.head(CLAIM) is not None:
            raise _not_whole(self.folder)
        written = self.folder.head(MANIFEST)
        if (written.e_tag if written else "") != self.manifest_tag:
            raise RewrittenError(f"{self.folder.address.text} was written anew while it was read")


class RewrittenError(StoreError):
    """A folder is whole, and not the one that was looked at."""


def look(source: Folder, patterns: Patterns) -> Found:
    """Find out what lies at an address. What is not written to its end is refused, be it a folder around or below."""
    address = source.address
    _check_above(source)
    if address.path and not address.is_folder and (entry := source.head()) is not None:
        parent = source.parent()
        return Found(parent, [entry._replace(name=address.last_part)], is_one_object=True)
    found = {entry.name: entry for entry in source.entries()}
    if not found:
        raise MissingError(f"{address.text}: there is nothing there")
    if CLAIM in found:
        raise _not_whole(source)
    manifest, tag = Manifest(), ""
    if MANIFEST in found:
        manifest = Manifest.decode(source.read_small(MANIFEST)[0], f"{address.text.rstrip('/')}/{MANIFEST}")
        tag = found[MANIFEST].e_tag
        if lost := sorted(set(manifest.files) - set(found)):
            raise PermanentError(f"{address.text} is not whole: {lost[0]} was removed")
    names = [name for name in sorted(found) if f"/{FOLDER}" not in f"/{name}" and patterns.match(name)]
    for torn in (name.removesuffix(CLAIM) for name in found if name.endswith(f"/{CLAIM}")):
        if any(name.startswith(torn) for name in names):
            raise _not_whole(replace(source, address=address.below(torn)))
    return Found(source, [found[name] for name in names], manifest, tag)


def _check_above(folder: Folder) -> None:
    """Refuse what lies in a folder that is not written to its end. A key that may not look there decides nothing."""
    while folder.address.path:
        folder = folder.parent()
        with contextlib.suppress(PermanentError):
            if folder.head(CLAIM) is not None:
                raise _not_whole(folder)


def _not_whole(folder: Folder) -> StoreError:
    text = folder.address.text.rstrip("/")
    return StoreError(
        f"{text} is not whole: it is being written, or whoever wrote it was interrupted; wait, store it again, "
        f"or remove {text}/{CLAIM} if what lies there will do"
    )


def download(found: Found, draft: Path, *, known: Path, meter: Meter, cache: Cache | None = None) -> Found:
    """Fetch into ``draft/files`` what is not the same in ``known``; returns what came, for objects may be replaced."""
    (draft / "files").mkdir(parents=True, exist_ok=True)
    places = {entry.name: _inside(draft / "files", entry.name) for entry in found.entries}
    _remove_others(draft / "files", set(places.values()))
    wanted = [entry for entry in found.entries if not _is_same(known / entry.name, entry)]
    meter.expect(sum(entry.size for entry in wanted), len(wanted))
    with Journal.open(draft / "journal") as journal:
        _check_room(wanted, journal, draft, found.folder.address.text)
        fetch = _Fetch(found, places, journal, meter, cache)
        for above, size, files, lanes in _LANES:
            entries = [entry for entry in wanted if above < entry.size <= size]
            # Whole objects side by side cost the store less than ranges of them.
            shared = 1 if len(entries) >= files * lanes else lanes
            run_side_by_side((partial(fetch.object, entry, lanes=shared) for entry in entries), files * lanes // shared)
    return replace(found, entries=[fetch.newer.get(entry.name, entry) for entry in found.entries])


def _remove_others(folder: Path, places: set[Path]) -> None:
    """Remove what an earlier try brought and the store has no more."""
    for path in folder.rglob("*"):
        if path not in places and not path.is_dir():
            path.unlink()


def _chunk_size(entry: Entry, number: int) -> int:
    return min(CHUNK_BYTES, entry.size - number * CHUNK_BYTES)


def _stretches(checks: list[int | None], lanes: int) -> Iterator[tuple[int, int]]:
    """The chunks that have not come yet, as ranges of neighbours that one request fetches."""
    first, most = 0, _STRETCH_CHUNKS if lanes > 1 else len(checks)
    for number in range(len(checks) + 1):
        whole = number - first == most
        if number == len(checks) or checks[number] is not None or whole:
            if number > first:
                yield first, number
            first = number if whole and number < len(checks) and checks[number] is None else number + 1


def _inside(folder: Path, name: str) -> Path:
    """Where an object's file lies. A store's keys are no paths: one may say '..'."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in name:
        raise PermanentError(f"the store holds {name!r}, which cannot be the path of a file")
    return folder.joinpath(*parts)


def _is_same(path: Path, entry: Entry) -> bool:
    """Whether an earlier fetch brought this very object: its size, and the time that was set then."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return status.st_size == entry.size and status.st_mtime == entry.modified


def _check_room(wanted: list[Entry], journal: Journal, draft: Path, text: str) -> None:
    needed = sum(entry.size for entry in wanted) - journal.arrived_bytes(wanted)
    free = shutil.disk_usage(draft).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{text} needs {needed / 1e6:.0f} MB more, and {free / 1e6:.0f} MB are free")


class _Fetch:
    """Brings the objects of one folder."""

    def __init__(
        self, found: Found, places: dict[str, Path], journal: Journal, meter: Meter, cache: Cache | None
    ) -> None:
        self._folder, self._manifest, self._places = found.folder, found.manifest, places
        self._journal, self._meter, self._cache = journal, meter, cache
        self.newer: dict[str, Entry] = {}
        """The objects that were replaced while they were fetched, as they are now."""

    def object(self, entry: Entry, *, lanes: int) -> None:
        """Fetch an object; again if it was replaced meanwhile."""
        for _ in range(_TRIES):
            try:
                self._fetch(entry, lanes)
            except ChangedError:
                newer = self._folder.head(entry.name)
                if newer is None:
                    break
                entry = self.newer[entry.name] = newer
            else:
                self._meter.add(0, files=1)
                return
        raise StoreError(f"{self._folder.address.text}: {entry.name} changes while it is read")

    def _fetch(self, entry: Entry, lanes: int) -> None:
        path = self._places[entry.name]
        path.parent.mkdir(parents=True, exist_ok=True)
        if self._cache is not None and entry.e_tag and self._cache.get(self._identity(entry), path):
            self._meter.add(entry.size)
        else:
            self._fetch_chunks(entry, path, lanes)
            if self._cache is not None and entry.e_tag:
                self._cache.put(self._identity(entry), path)
        # By this a later fetch sees that it has the object already.
        os.utime(path, (entry.modified, entry.modified))

    def _fetch_chunks(self, entry: Entry, path: Path, lanes: int) -> None:
        checks = [self._journal.find(entry, number, path) for number in range(chunk_count(entry.size))]
        self._meter.add(sum(_chunk_size(entry, number) for number, check in enumerate(checks) if check is not None))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(descriptor, entry.size)
            fetch = self._chunk if entry.size <= _SMALL_BYTES else self._stretch
            tasks = [partial(fetch, entry, *stretch, descriptor, checks) for stretch in _stretches(checks, lanes)]
            if lanes == 1:
                for task in tasks:
                    task()
            else:
                run_side_by_side(tasks, lanes)
        finally:
            os.close(descriptor)
        if not self._is_right(entry, file_check(check or 0 for check in checks), path):
            path.unlink()
            raise StoreError(f"{self._folder.address.text}: {entry.name} does not match its checksum")

    def _stretch(self, entry: Entry, first: int, last: int, descriptor: int, checks: list[int | None]) -> None:
        """Fetch neighbouring chunks with one request, as they come; again from the chunk in which it broke off."""
        while first < last:
            began = first
            try:
                for number, check in self._streamed(entry, first, last, descriptor):
                    self._journal.note(entry, number, check)
                    checks[number] = check
                    first = number + 1
            except StoreError:
                if first == began:
                    self._chunk(entry, first, first + 1, descriptor, checks)  # which is patient
                    first += 1

    def _streamed(self, entry: Entry, first: int, last: int, descriptor: int) -> Iterator[tuple[int, int]]:
        """Write chunks as they come, and return each that is whole with its checksum."""
        end = min(last * CHUNK_BYTES, entry.size)
        place, check, counted = first * CHUNK_BYTES, 0, 0
        try:
            for piece in self._folder.read_pieces(entry.name, place, end, entry.e_tag):
                rest = piece
                while rest:
                    number = place // CHUNK_BYTES
                    part = rest[: min((number + 1) * CHUNK_BYTES, end) - place]
                    written = os.pwrite(descriptor, part, place)
                    check = zlib.crc32(part[:written], check)
                    place, rest, counted = place + written, rest[written:], counted + written
                    self._meter.add(written)
                    if place == min((number + 1) * CHUNK_BYTES, end):
                        yield number, check
                        check, counted = 0, 0
        finally:
            self._meter.add(-counted)

    def _chunk(self, entry: Entry, number: int, _: int, descriptor: int, checks: list[int | None]) -> None:
        """Fetch one chunk, and be patient with the store."""
        start = number * CHUNK_BYTES
        end = start + _chunk_size(entry, number)
        data = self._folder.read(entry.name, start, end, entry.e_tag)
        checks[number] = check = chunk_check(data)
        while data:
            data = data[os.pwrite(descriptor, data, end - len(data)) :]
        self._journal.note(entry, number, check)
        self._meter.add(end - start)

    def _is_right(self, entry: Entry, check: str, path: Path) -> bool:
        """Compare with what was stored: by the manifest if it tells of this object, else by a tag that is an MD5."""
        facts = self._manifest.files.get(entry.name)
        if facts is not None and facts.e_tag == entry.e_tag:
            return facts.check == check
        tag = _MD5.fullmatch(entry.e_tag) if self._folder.address.scheme == "s3" else None
        if tag is None:
            return True
        with path.open("rb") as file:
            return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest() == entry.e_tag

    def _identity(self, entry: Entry) -> str:
        address = self._folder.address
        return json.dumps([address.scheme, address.place, address.path, entry.name, entry.size, entry.e_tag])
