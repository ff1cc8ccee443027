"""What a node has fetched, by content, shared by the jobs of a tenant, bounded, and cleaned by age of use.

    TENANT/content/DIGEST    the bytes; the time of the file is when they were last used
    TENANT/names/HASH        the digest of what an object was: its address, size and tag at the time

A tenant's entries lie in a folder of its own, and a mover is handed that of its tenant: nothing it can name leads to
another's. Files are copied out of the cache, shared blocks where the file system has them, never linked: what a job
does to its copy is its own business.
"""

import contextlib
import hashlib
import os
import platform
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_SHARE = 0x40049409
"""The ioctl that makes one file share the blocks of another."""
_KEPT_FREE = 0.1
"""The cache gives way once less than this share of its disk is free."""


@dataclass(frozen=True, slots=True)
class Cache:
    """One tenant's part of a node's cache. Everything here may fail without harm: the store is asked instead."""

    root: Path
    tenant: str
    most_bytes: int

    @property
    def folder(self) -> Path:
        """Where this tenant's entries lie."""
        return self.root / quote(self.tenant, safe="").replace(".", "%2E")

    def get(self, identity: str, target: Path) -> bool:
        """Copy what an object was to a file, if it is here."""
        try:
            content = self.folder / "content" / self._name(identity).read_text(encoding="ascii")
            _copy(content, target)
            os.utime(content)
        except (OSError, ValueError):
            return False
        return True

    def put(self, identity: str, source: Path) -> None:
        """Keep a file that was fetched and checked. A disk that is nearly full keeps nothing."""
        size, usage = source.stat().st_size, shutil.disk_usage(source.parent)
        if size > self.most_bytes or usage.free - size < usage.total * _KEPT_FREE:
            return
        with contextlib.suppress(OSError):
            with source.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            content = self.folder / "content" / digest
            for folder in (content.parent, self.folder / "names"):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not content.exists():
                draft = content.with_name(f".{digest}.{_own()}")
                try:
                    _copy(source, draft)
                    draft.replace(content)
                finally:
                    draft.unlink(missing_ok=True)
            name = self._name(identity)
            draft = name.with_name(f".{name.name}.{_own()}")
            draft.write_text(digest, encoding="ascii")
            draft.replace(name)

    def clean(self) -> int:
        """Remove what was not used for longest until the whole cache fits; returns how many bytes went.

        The bound is that of all tenants together, for they share the disk; of this one alone, where the others' are
        closed to it. Called by a mover when it is done.
        """
        contents = []
        for path in {*self.folder.glob("content/*"), *self.root.glob("*/content/*")}:
            with contextlib.suppress(OSError):
                status = path.stat()
                contents.append((status.st_mtime, status.st_size, path))
        excess = sum(size for _, size, _ in contents) - self.most_bytes
        removed = 0
        for _, size, path in sorted(contents):
            if removed >= excess:
                break
            path.unlink(missing_ok=True)
            removed += size
        if removed:
            self._forget_names()
        return removed

    def _forget_names(self) -> None:
        for name in {*self.folder.glob("names/*"), *self.root.glob("*/names/*")}:
            with contextlib.suppress(OSError):
                if not (name.parent.parent / "content" / name.read_text(encoding="ascii")).exists():
                    name.unlink()

    def _name(self, identity: str) -> Path:
        return self.folder / "names" / hashlib.sha256(identity.encode()).hexdigest()


def _own() -> str:
    """What no other thread calls its drafts, of this machine or of another that shares the cache."""
    return f"{platform.node()}.{os.getpid()}.{threading.get_ident()}"


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as original, target.open("wb") as copy:
        try:
            import fcntl  # only Unix has it

            fcntl.ioctl(copy.fileno(), _SHARE, original.fileno())
        except (OSError, ModuleNotFoundError):
            shutil.copyfileobj(original, copy, 1 << 20)
