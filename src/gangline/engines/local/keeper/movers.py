"""The stage program: unpacks code and moves data, as a child of the keeper.

``prepare DIRECTORY REPLICA...`` makes the replicas' directories and fetches the inputs; ``outputs DIRECTORY`` stores
the results. Whatever is fetched has a draft's name until it is whole, so an interruption leaves nothing half done. Exit
code 3 says that another try would end the same; the last line on standard error says why. A stage that succeeds says
there what it left out.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from gangline.runtime.moving import move, tell_failure
from gangline.runtime.unpacking import Limits, PermanentError, unpack

from .launch import SCRATCH_FOLDERS
from .orders import Order

_DRAFT = ".gangline-draft"


def main() -> None:
    """Do one stage, named by the arguments."""
    kind, directory, *replicas = sys.argv[1:]
    order = Order(f"{directory}/order.json")
    try:
        if kind == "prepare":
            prepare(order, Path(directory), replicas)
        else:
            for source, target in order.outputs:
                _tell(move(source, target))
    except (PermanentError, OSError) as error:
        sys.exit(tell_failure(error))


def prepare(order: Order, directory: Path, replicas: list[str]) -> None:
    """Fetch what was not fetched by an earlier attempt, and give each replica its own copy of the code."""
    for source, target in order.inputs:
        receipt = Path(order.receipts, hashlib.sha256(f"{source}\0{target}".encode()).hexdigest())
        if not receipt.exists():
            _tell(move(source, target))
            receipt.parent.mkdir(parents=True, exist_ok=True)
            receipt.touch()
    unpacked: Path | None = None
    for replica in replicas:
        draft = directory / "scratch" / f"{replica}{_DRAFT}"
        shutil.rmtree(draft, ignore_errors=True)
        for folder in SCRATCH_FOLDERS:
            if folder != "/work":
                Path(f"{draft}{folder}").mkdir(mode=0o700)
        if unpacked is not None:
            shutil.copytree(unpacked, draft / "work", symlinks=True)
        elif order.code_archive is not None:
            unpack_code(order, draft / "work")
        else:
            (draft / "work").mkdir(mode=0o700)
        draft.rename(directory / "scratch" / replica)
        unpacked = directory / "scratch" / replica / "work"


def unpack_code(order: Order, target: Path) -> None:
    """Unpack the job's code; an archive that holds more than is allowed is refused."""
    archive = Path(str(order.code_archive))
    if not archive.exists():
        raise PermanentError(f"the code archive {archive.name} is not here; submit the job again")
    target.mkdir(mode=0o700)
    with archive.open("rb") as packed:
        unpack(packed, target, Limits(*order.code_limits))


def _tell(note: str) -> None:
    """Say what was left out; a stage that succeeds has its words noted."""
    sys.stderr.write(note and f"{note}\n")
