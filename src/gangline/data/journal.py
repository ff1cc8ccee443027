"""Which chunks of a download have arrived, with their checksums, so that a killed one is resumed."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from .manifests import CHUNK_BYTES, chunk_check
from .stores import Entry


class Journal:
    """A file with a line for each chunk, appended in one write once the chunk is in its file."""

    def __init__(self, descriptor: int, arrived: dict[tuple[str, str, int], int]) -> None:
        self._descriptor = descriptor
        self._arrived = arrived

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path) -> Iterator["Journal"]:
        """Read what an earlier try noted, and go on with it."""
        arrived: dict[tuple[str, str, int], int] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                # The last line of a killed mover may be torn.
                with contextlib.suppress(ValueError):
                    name, version, number, check = json.loads(line)
                    arrived[name, version, number] = int(check)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            yield cls(descriptor, arrived)
        finally:
            os.close(descriptor)

    def note(self, entry: Entry, number: int, check: int) -> None:
        """Note that a chunk is in its file."""
        line = json.dumps([entry.name, _version(entry), number, check]) + "\n"
        os.write(self._descriptor, line.encode())

    def find(self, entry: Entry, number: int, path: Path) -> int | None:
        """Return the checksum of a chunk that arrived earlier and still is in its file."""
        wanted = self._arrived.get((entry.name, _version(entry), number))
        if wanted is None:
            return None
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(number * CHUNK_BYTES)
            if chunk_check(file.read(CHUNK_BYTES)) == wanted:
                return wanted
        return None

    def arrived_bytes(self, entries: list[Entry]) -> int:
        """About how much of these objects need not come again."""
        sizes = {(entry.name, _version(entry)): entry.size for entry in entries}
        return sum(min(CHUNK_BYTES, sizes.get((name, version), 0)) for name, version, _ in self._arrived)


def _version(entry: Entry) -> str:
    return f"{entry.size} {entry.modified} {entry.e_tag}"
