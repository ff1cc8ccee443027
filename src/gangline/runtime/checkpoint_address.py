"""One rank's side of the checkpoints at an address: what it stores there, what it finds, what counts as whole.

    STEP.ATTEMPT/rank-R/...    what one rank saved, with its own manifest of files and checksums
    STEP.ATTEMPT/commit.json   written by rank 0 once every rank's part is there; without it there is no checkpoint

The attempt is part of the name: ranks of one attempt never complete what those of another began.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gangline.runtime.errors import MirrorError
from gangline.runtime.replica import is_abandoned

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.data.credentials import StoreCredentials
    from gangline.data.shelves import Shelf

COMMIT = "commit.json"
PART = "part.json"
_NAME = re.compile(r"step-(\d{12})\.(\d+)")
_LOOK_SECONDS = 0.2
_PARTS_SECONDS = 600.0


class CheckpointPlace(Protocol):
    """Where a rank keeps its parts of checkpoints: reached by itself, or by somebody beside it."""

    def newest(self) -> tuple[int, int] | None:
        """Step and attempt of the newest checkpoint that is whole."""
        ...

    def fetch(self, step: int, attempt: int, target: Path) -> None:
        """Bring this rank's part of a checkpoint to a directory that does not exist yet."""
        ...

    def write(self, step: int, path: Path, is_moot: Callable[[], bool]) -> None:
        """Store this rank's part; rank 0 then waits for the others and commits, unless that has become moot."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPart:
    """Which part of which checkpoints a rank has, and how many of them stay."""

    rank: int = 0
    world: int = 1
    keep: int = 3
    attempt: int = 1
    resume_from: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class CheckpointAddress:
    """A directory, or an address of an object store, with what opens it."""

    to: str
    credentials: StoreCredentials
    part: RankPart

    def newest(self) -> tuple[int, int] | None:
        """See CheckpointPlace."""
        return max(self._counting(self._shelf().names()), default=None)

    def fetch(self, step: int, attempt: int, target: Path) -> None:
        """See CheckpointPlace."""
        from gangline.data.transfers import Transfer, transfer

        source = f"{self.to}/{_name(step, attempt)}/rank-{self.part.rank}"
        draft = target.absolute().with_name(f".fetching-{target.name}")
        shutil.rmtree(draft, ignore_errors=True)
        transfer(Transfer(source=source, target=str(draft), credentials=self.credentials))
        draft.rename(target)

    def write(self, step: int, path: Path, is_moot: Callable[[], bool]) -> None:
        """See CheckpointPlace."""
        from gangline.data.transfers import Transfer, transfer

        rank = self.part.rank
        name, shelf = _name(step, self.part.attempt), self._shelf()
        if rank == 0:
            # Saved once more: until all parts are new again, it is not whole.
            shelf.remove([f"{name}/{COMMIT}"])
        target = f"{self.to}/{name}/rank-{rank}"
        transfer(
            Transfer(source=str(path.absolute()), target=target, credentials=self.credentials, writer=f"rank {rank}")
        )
        shelf.write(f"{name}/{PART}.{rank}", b"{}")
        if rank == 0:
            self._await_parts(shelf, name, is_moot)
            shelf.write(f"{name}/{COMMIT}", json.dumps({"step": step, "ranks": self.part.world}).encode())
            self._remove_old(shelf)

    def _await_parts(self, shelf: Shelf, name: str, is_moot: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PARTS_SECONDS
        missing = set(range(self.part.world))
        while missing := {rank for rank in missing if shelf.read(f"{name}/{PART}.{rank}") is None}:
            if is_moot() or time.monotonic() > deadline:
                raise MirrorError(self.to, f"{name}: rank {min(missing)} did not store its part")
            time.sleep(_LOOK_SECONDS)

    def _remove_old(self, shelf: Shelf) -> None:
        names = shelf.names()
        whole = sorted(self._counting(names), reverse=True)
        limit = whole[self.part.keep - 1] if len(whole) > self.part.keep else (-1, -1)
        found = [(name, (int(match[1]), int(match[2]))) for name in names if (match := _NAME.match(name))]
        old = [name for name, which in found if which < limit or is_abandoned(self.part.resume_from, *which)]
        # The commit first: what is half removed must not look whole.
        shelf.remove([name for name in old if name.endswith(f"/{COMMIT}")])
        shelf.remove([name for name in old if not name.endswith(f"/{COMMIT}")])

    def _counting(self, names: list[str]) -> list[tuple[int, int]]:
        return [which for which in committed(names) if not is_abandoned(self.part.resume_from, *which)]

    def _shelf(self) -> Shelf:
        from gangline.data.shelves import shelf_at

        return shelf_at(self.to, self.credentials)


def committed(names: list[str]) -> list[tuple[int, int]]:
    """Step and attempt of every checkpoint that is whole, by the names of what lies at an address."""
    folders = [name.removesuffix(f"/{COMMIT}") for name in names if name.endswith(f"/{COMMIT}")]
    return [(int(match[1]), int(match[2])) for folder in folders if (match := _NAME.fullmatch(folder))]


def _name(step: int, attempt: int) -> str:
    return f"step-{step:012d}.{attempt}"
