"""The stage program: unpacks code and moves data, as a child of the keeper.

``prepare DIRECTORY REPLICA...`` makes the replicas' directories and fetches the inputs; ``outputs DIRECTORY`` stores
the results. Whatever is fetched has a draft's name until it is whole, so an interruption leaves nothing half done. Exit
code 3 says that another try would end the same; the last line on standard error says why. A stage that succeeds says
there what it left out.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from gangline.data.carrying import Equipment, Move, carry, is_model, keep_model
from gangline.data.moving import tell_failure
from gangline.data.unpacking import Limits, PermanentError, unpack

from .launch import SCRATCH_FOLDERS
from .orders import CREDENTIALS_FILE, MOVES_FOLDER, REGISTRATIONS_FILE, read_order
from .system.users import become

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gangline.data.cache import Cache
    from gangline.data.credentials import StoreCredentials
    from gangline.data.model_files import ModelFiles
    from gangline.data.progress import Meter
    from gangline.data.reports import Reporter
    from gangline.engines.local.wire import Order

_DRAFT = ".gangline-draft"


class Stage(NamedTuple):
    """One stage of an attempt, with the keys of its stores and the archive of its code."""

    order: Order
    directory: Path
    keys: dict[str, Any]
    archive: BinaryIO | None

    def tell(self, name: str) -> Path:
        """Return the file in which something is told to the engine."""
        folder = self.directory / MOVES_FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / name


def main() -> None:
    """Do one stage, named by the arguments."""
    kind, directory, *replicas = sys.argv[1:]
    order = read_order(f"{directory}/order.json")
    try:
        # What is the service's own is opened before this process becomes that of the tenant.
        stage = Stage(order, Path(directory), _keys(Path(directory)), _archive(order))
        become(order.user)
        if kind == "prepare":
            prepare(stage, replicas)
        else:
            store(stage)
    except (PermanentError, OSError) as error:
        sys.exit(tell_failure(error))


def prepare(stage: Stage, replicas: list[str]) -> None:
    """Fetch what was not fetched by an earlier attempt, and give each replica its own copy of the code."""
    directory = stage.directory
    if stage.order.inputs:
        fetch(stage)
    unpacked: Path | None = None
    for replica in replicas:
        draft = directory / "scratch" / f"{replica}{_DRAFT}"
        shutil.rmtree(draft, ignore_errors=True)
        for folder in SCRATCH_FOLDERS:
            if folder != "/work":
                Path(f"{draft}{folder}").mkdir(mode=0o700)
        if unpacked is not None:
            shutil.copytree(unpacked, draft / "work", symlinks=True)
        elif stage.order.code_archive is not None:
            unpack_code(stage, draft / "work")
        else:
            (draft / "work").mkdir(mode=0o700)
        draft.rename(directory / "scratch" / replica)
        unpacked = directory / "scratch" / replica / "work"


def fetch(stage: Stage) -> None:
    """Fetch what was not fetched by an earlier attempt, of which a receipt tells with its digest."""
    order = stage.order
    reporter, equipment = _reporter("inputs", len(order.inputs), stage), equipment_of(stage)
    for wanted in order.inputs:
        receipt = Path(order.receipts, hashlib.sha256(f"{wanted.source}\0{wanted.target}".encode()).hexdigest())
        if not receipt.exists():
            _tell(carry(wanted, equipment, reporter.meter))
            receipt.parent.mkdir(parents=True, exist_ok=True)
            receipt.write_text(reporter.meter.digest, encoding="ascii")
        reporter.moved(wanted.address or wanted.source, receipt.read_text(encoding="ascii"))


def store(stage: Stage) -> None:
    """Store the outputs."""
    order = stage.order
    reporter, equipment = _reporter("outputs", len(order.outputs), stage), equipment_of(stage)
    for number, output in enumerate(order.outputs):
        if is_model(output.target):
            _tell(register(output, equipment, stage, number, reporter.meter))
        else:
            _tell(carry(output, equipment, reporter.meter))
        reporter.moved(output.address or output.target, reporter.meter.digest)


def _reporter(kind: str, moves: int, stage: Stage) -> Reporter:
    # Imported here: every local job with code passes through this module, and few of them move data.
    from gangline.data.reports import REPORT_FILE, Reporter, write_to

    return Reporter(kind, moves, write_to(stage.tell(REPORT_FILE).parent))


def equipment_of(stage: Stage) -> Equipment:
    """Find what the movers of an attempt have: keys beside the order, the cache of the machine, the tenant's models."""
    order = stage.order

    def credentials(store: str) -> StoreCredentials:
        from gangline.data.credentials import StoreCredentials

        return StoreCredentials.from_plain(stage.keys[store])

    def models() -> ModelFiles:
        from gangline.data.model_files import ModelFiles

        return ModelFiles.in_directory(Path(str(order.models)))

    def cache() -> Cache | None:
        from gangline.data.cache import Cache

        return Cache(Path(str(order.cache[0])), str(order.cache[1]), int(order.cache[2])) if order.cache else None

    return Equipment(order.writer, credentials, models, cache)


def register(wanted: Move, equipment: Equipment, stage: Stage, number: int, meter: Meter) -> str:
    """Keep an output as the files of a model, and leave word of it; the engine registers them."""
    name, kept = keep_model(wanted, equipment, meter)
    file = stage.tell(REGISTRATIONS_FILE)
    known = json.loads(file.read_bytes()) if file.exists() else {}
    known[str(number)] = [name, list(kept)]
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(known), encoding="utf-8")
    draft.replace(file)
    return kept.note


def unpack_code(stage: Stage, target: Path) -> None:
    """Unpack the job's code; an archive that holds more than is allowed is refused."""
    if stage.archive is None:
        name = Path(str(stage.order.code_archive)).name
        raise PermanentError(f"the code archive {name} is not here; submit the job again")
    target.mkdir(mode=0o700)
    with stage.archive as packed:
        unpack(packed, target, Limits(*(stage.order.code_limits or ())))


def _keys(directory: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((directory / CREDENTIALS_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def _archive(order: Order) -> BinaryIO | None:
    try:
        return open(order.code_archive, "rb") if order.code_archive else None  # noqa: PTH123
    except FileNotFoundError:
        return None


def _tell(note: str) -> None:
    """Say what was left out; a stage that succeeds has its words noted."""
    sys.stderr.write(note and f"{note}\n")
