"""What a folder in an object store holds, written down: sizes, checksums and the store's own tags. Pure.

A file has two checksums. Its SHA-256 says whether two files are the same. Its check comes from the CRC-32 of each
chunk: a download checks chunks as they come, in any order and side by side, at a quarter of the cost.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from .unpacking import PermanentError

CHUNK_BYTES = 8 << 20
FOLDER = ".gangline/"
"""Below the folder itself: what Gangline notes of it, and what is not part of it."""
MANIFEST = FOLDER + "manifest.json"
CLAIM = FOLDER + "writing.json"


class FileFacts(NamedTuple):
    """What was stored under a name."""

    size: int
    e_tag: str
    digest: str
    check: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a folder; in a claim, those that its writer has stored so far."""

    files: Mapping[str, FileFacts] = field(default_factory=dict)
    writer: str = ""

    def encode(self) -> bytes:
        """Write it as the object that lies in the store."""
        return json.dumps({"version": 1, "writer": self.writer, "files": self.files}).encode()

    @classmethod
    def decode(cls, text: bytes, where: str) -> "Manifest":
        """Read what ``encode`` wrote; ``where`` is for the error."""
        try:
            plain = json.loads(text)
            files = {str(name): FileFacts(int(f[0]), *map(str, f[1:4])) for name, f in plain["files"].items()}
            return cls(files, str(plain["writer"]))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise PermanentError(f"{where} is not what Gangline writes there: {error}") from error


@dataclass(frozen=True, slots=True)
class Patterns:
    """Which files of a folder are meant: any of ``include``, or all, and none of ``exclude``. ``*`` matches slashes."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def match(self, name: str) -> bool:
        """Whether a file, by its path below the folder, is meant."""
        if self.include and not any(fnmatchcase(name, pattern) for pattern in self.include):
            return False
        return not any(fnmatchcase(name, pattern) for pattern in self.exclude)


def chunk_count(size: int) -> int:
    """How many chunks a file has; an empty one has one, which is empty."""
    return max(1, -(-size // CHUNK_BYTES))


def chunk_check(data: bytes | memoryview) -> int:
    """The checksum of one chunk."""
    return zlib.crc32(data)


def file_check(chunks: Iterable[int]) -> str:
    """The check of a file by the checksums of its chunks, in order."""
    return f"{zlib.crc32(b''.join(chunk.to_bytes(4, 'big') for chunk in chunks)):08x}"
