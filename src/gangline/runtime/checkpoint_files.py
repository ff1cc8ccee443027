"""The checkpoints that a job has only at an address, as files of the job: for somebody who looks while it does not run.

    python3 -I -m gangline.runtime.checkpoint_files PLACE.json list|read PATH [RESUME]

It is run in a pod of Gangline's own image, over its streams, as ``gangline.data.reach`` is, and answers alike. Files
have the paths that they had below CHECKPOINT_DIR; where several ranks saved parts, these are in folders ``rank-R``.
What is not whole, and what its user chose not to go on from (RESUME, as replicas are told it), is not there.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gangline.data.job_folders import FileFact, NoSuchFileError
from gangline.data.moving import tell_failure
from gangline.data.pod_mover import hide, open_store
from gangline.data.reach import MISSING
from gangline.data.shelves import shelf_at
from gangline.data.tars import packed, write_tar
from gangline.data.transfers import Transfer, transfer
from gangline.data.unpacking import PermanentError
from gangline.runtime.checkpoint_address import COMMIT
from gangline.runtime.replica import is_abandoned, resume_point

if TYPE_CHECKING:
    from gangline.data.credentials import StoreCredentials

_FOLDER = "checkpoints"
_PART = re.compile(
    r"(?P<whole>(?P<below>(?:[^/]+/)*)step-(?P<step>\d{12})\.(?P<attempt>\d+))/rank-(?P<rank>\d+)/(?P<file>.+)"
)
_OWN = ".gangline/"
"""Below a part, what the transfer wrote for itself."""


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """What lies at the address of a job's checkpoints."""

    to: str
    credentials: StoreCredentials
    resume_from: tuple[int, int] | None = None

    def listed(self, path: str) -> list[FileFact]:
        """Return every file at or below a path."""
        found = [fact for fact, _ in self._found() if _is_at(fact.path, path)]
        if not found and path.strip("/") != _FOLDER:
            raise NoSuchFileError(path.strip("/"))
        return found

    def fetch(self, path: str, target: Path) -> Path:
        """Bring what is at a path into a directory; return where it is there."""
        wanted = [(fact.path, source) for fact, source in self._found() if _is_at(fact.path, path)]
        if not wanted:
            raise NoSuchFileError(path.strip("/"))
        for name, source in wanted:
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            transfer(Transfer(source=f"{self.to}/{source}", target=str(place), credentials=self.credentials))
        return target / path.strip("/")

    def _found(self) -> list[tuple[FileFact, str]]:
        """Every file of a checkpoint that counts, with its path at the address."""
        facts = shelf_at(self.to, self.credentials).facts()
        matches = [match for name in facts if (match := _PART.fullmatch(name)) and not match["file"].startswith(_OWN)]
        newest: dict[tuple[str, int], int] = {}
        ranks: dict[str, set[str]] = {}
        for match in matches:
            which, attempt = (match["below"], int(match["step"])), int(match["attempt"])
            if f"{match['whole']}/{COMMIT}" in facts and not is_abandoned(self.resume_from, which[1], attempt):
                newest[which] = max(attempt, newest.get(which, 0))
                ranks.setdefault(match["whole"], set()).add(match["rank"])
        found = []
        for match in matches:
            if newest.get((match["below"], int(match["step"]))) != int(match["attempt"]):
                continue
            part = f"rank-{match['rank']}/" if len(ranks[match["whole"]]) > 1 else ""
            path = f"{_FOLDER}/{match['below']}{part}step-{match['step']}/{match['file']}"
            found.append((FileFact(path, *facts[match[0]]), match[0]))
        return sorted(found)


def _is_at(name: str, path: str) -> bool:
    return f"{name}/".startswith(f"{path.strip('/')}/")


def main() -> None:
    """Do what the arguments say."""
    hide()
    place, action, path, *resume = sys.argv[1:]
    given = json.loads(Path(place).read_text(encoding="utf-8"))
    saved = SavedFiles(given["at"], open_store(given["store"]), resume_point(resume[0] if resume else ""))
    try:
        if action == "list":
            json.dump(saved.listed(path), sys.stdout)
            return
        with tempfile.TemporaryDirectory() as scratch:
            write_tar(packed(saved.fetch(path, Path(scratch))), sys.stdout.buffer)
    except NoSuchFileError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(MISSING)
    except (PermanentError, OSError) as error:
        sys.exit(tell_failure(error))


if __name__ == "__main__":
    main()
