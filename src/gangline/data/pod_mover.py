"""The mover of a cluster: a program of Gangline's own image that stands in the pods of jobs, before and beside theirs.

    python3 -m gangline.data.pod_mover inputs|outputs|store|restore MOVES.json

It fetches inputs before the program starts, and stores outputs (``store``) when the engine gives its word; ``restore``
brings them back. What opens a store lies in files that only this container has mounted. Exit code 3 says that another
try would end the same; the last line on standard error says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from .carrying import Equipment, Move, carry, is_model, keep_model
from .model_files import KeptModel
from .moving import PERMANENT_FAILURE, move, remove, tell_failure
from .progress import Meter
from .reports import Reporter
from .trees import follow_links_only_below
from .unpacking import PermanentError, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .cache import Cache
    from .credentials import StoreCredentials
    from .model_files import ModelFiles

TERMINATION_LOG = "/dev/termination-log"
"""Where a kubelet reads what a container wants known of its end."""
MODELS = "models: "
"""How the line begins by which a mover tells what models its outputs have become."""
REPORT = "transfer: "
"""How lines begin by which a mover tells how far it is."""
KEYS = ("key", "secret", "token")
_MOST_TOLD_BYTES = 3500
"""A kubelet tells no more than 4096 bytes of what a container says of its end."""
_LOOK_SECONDS = 0.3
_STORE_PAUSES = (1.0, 5.0, 20.0, 60.0, 120.0)
_PR_SET_DUMPABLE = 4


def main() -> None:
    """Move what the order says: ``inputs`` at once, ``outputs`` when the order to store them comes."""
    hide()
    kind, order = sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    # What a link of the program leads to elsewhere would be a file of this container: of another image, or a key.
    follow_links_only_below(order.get("directories", ()))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        if kind == "inputs":
            fetch_inputs(order)
        elif kind == "store":
            store_outputs(order)
        elif kind == "restore":
            restore_outputs(order)
        else:
            _await_word(Path(order["word"]), order["go"])
            sys.exit(_insist(sys.argv[2]))
    except (PermanentError, OSError) as error:
        sys.exit(tell_failure(error))


def hide() -> None:
    """Keep the program beside this one, which may have the same user, from looking into this process and its files."""
    with contextlib.suppress(OSError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


# Inputs -----------------------------------------------------------------------------------------------------


def fetch_inputs(order: dict[str, Any]) -> None:
    """Fetch every input that no receipt is there for. Receipts lie where the data does, if that outlives the pod."""
    receipts = Path(order["receipts"]) if order.get("receipts") else None
    reporter = Reporter("inputs", len(order["inputs"]), _say)
    with contextlib.closing(reporter), _alone(receipts):
        for entry in order["inputs"]:
            # Not by the version of a model: what an alias led to when the job first started stays.
            identity = [entry["job"], *entry["move"][:2], entry.get("digest")]
            receipt = receipts / hashlib.sha256(json.dumps(identity).encode()).hexdigest() if receipts else None
            wanted = Move(*entry["move"])
            if receipt is not None and receipt.exists():
                reporter.moved(wanted.address, receipt.read_text(encoding="utf-8"))
                continue
            reporter.meter.digest = ""
            note = _fetch_input(entry, wanted, _equipment(order, entry), reporter.meter)
            sys.stderr.write(note and f"{note}\n")
            if receipt is not None:
                receipt.write_text(reporter.meter.digest, encoding="utf-8")
            reporter.moved(wanted.address, reporter.meter.digest)
    _tell_kubelet("", {}, reporter.report())


def _fetch_input(entry: dict[str, Any], wanted: Move, equipment: Equipment, meter: Meter) -> str:
    if entry.get("mounted"):
        if not Path(entry["mounted"]).is_dir():
            raise PermanentError(f"{wanted.source} is not a directory")
        return ""
    if not entry.get("parts"):
        return carry(wanted, equipment, meter)
    scratch = Path(entry["scratch"])
    try:
        unpack_parts(Path(entry["parts"]), scratch)
        return move(str(scratch / entry["name"]), wanted.target, meter)
    finally:
        remove(scratch)


@contextlib.contextmanager
def _alone(directory: Path | None) -> Iterator[None]:
    """Keep the other replicas out while this one fills a volume that they share."""
    if directory is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a") as held:
        # A file system without locks lets several replicas fetch the same: wasteful, not wrong.
        with contextlib.suppress(OSError):
            import fcntl  # a pod has it; a client that merely knows what movers say may not

            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def unpack_parts(folder: Path, target: Path) -> None:
    """Join the parts of an archive, which lie in a numbered folder each, and unpack it."""
    parts = sorted(folder.glob("*/part"))
    remove(target)
    target.mkdir(parents=True)
    with _Joined(parts) as stream:
        unpack(cast(BinaryIO, stream), target)


class _Joined:
    """Files read as one."""

    def __init__(self, files: list[Path]) -> None:
        self._files = iter(files)
        self._open: BinaryIO | None = None

    def __enter__(self) -> _Joined:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()

    def read(self, size: int) -> bytes:
        while True:
            if self._open is None:
                following = next(self._files, None)
                if following is None:
                    return b""
                self._open = following.open("rb")
            data = self._open.read(size)
            if data:
                return data
            self._open.close()
            self._open = None


# Outputs ----------------------------------------------------------------------------------------------------


def _await_word(file: Path, word: str) -> None:
    """Wait until the file that the cluster keeps up to date holds a line."""
    while word not in (file.read_text(encoding="utf-8") if file.exists() else "").splitlines():
        time.sleep(_LOOK_SECONDS)


def _insist(order: str) -> int:
    """Store outputs in a process of its own, again if that is killed or the store fails it: nobody else has them."""
    command = [sys.executable, "-I", "-m", "gangline.data.pod_mover", "store", order]
    for pause in _STORE_PAUSES:
        code = subprocess.run(command, check=False).returncode
        if code in (0, PERMANENT_FAILURE):
            return code
        time.sleep(pause)
    return 1


def store_outputs(order: dict[str, Any]) -> None:
    """Store every output, and tell the kubelet what was left out and what models there are now."""
    notes: list[str] = []
    kept: dict[int, Registration] = {}
    reporter = Reporter("outputs", len(order["outputs"]), _say)
    with contextlib.closing(reporter):
        for number, entry in enumerate(order["outputs"]):
            wanted, equipment = Move(*entry["move"]), _equipment(order, entry)
            reporter.meter.digest = ""
            if is_model(wanted.target):
                name, model = keep_model(wanted, equipment, reporter.meter)
                kept[number] = Registration(name, entry["models"]["address"], model._replace(note=""))
                notes.append(model.note)
            else:
                notes.append(carry(wanted, equipment, reporter.meter))
            reporter.moved(wanted.address, reporter.meter.digest)
    note = "; ".join(filter(None, notes))
    sys.stderr.write(note and f"{note}\n")
    _tell_kubelet(note, kept, reporter.report())


def _say(report: str) -> None:
    """Tell how far it is as a line of output, which the engine follows; the newest counts."""
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{REPORT}{report}\n")
        sys.stdout.flush()


def _tell_kubelet(note: str, kept: dict[int, Registration], report: str) -> None:
    """Leave what a kubelet tells of a container that has ended, even if it succeeded."""
    with contextlib.suppress(OSError):
        Path(TERMINATION_LOG).write_text(told(note, kept, report), encoding="utf-8")


def restore_outputs(order: dict[str, Any]) -> None:
    """Bring back what was stored to where it came from, for somebody who looks at a job that has ended."""
    for entry in order["outputs"]:
        wanted = Move(*entry["move"])
        if not is_model(wanted.target):
            carry(Move(wanted.target, wanted.source, wanted.store), _equipment(order, entry), Meter())


class Registration(NamedTuple):
    """What an output has become: a version of this model, with its files at an address."""

    name: str
    at: str
    kept: KeptModel


def told(note: str, kept: dict[int, Registration], report: str = "") -> str:
    """Write what is told of a success: a note and, in lines of their own, models and what was moved.

    What is too long for a kubelet is left out: the list of what was moved, then signatures.
    """
    if kept and len(_lines(kept, "").encode()) > _MOST_TOLD_BYTES:
        kept = {number: each._replace(kept=each.kept._replace(signature="")) for number, each in kept.items()}
        note = "; ".join(filter(None, (note, "the signature is too long to be kept on a cluster")))
    if len(_lines(kept, report).encode()) > _MOST_TOLD_BYTES:
        report = ""
    lines = _lines(kept, report)
    return f"{note[: max(0, _MOST_TOLD_BYTES - len(lines))]}{lines}"


def _lines(kept: dict[int, Registration], report: str) -> str:
    return (f"\n{MODELS}{json.dumps(kept)}" if kept else "") + (f"\n{REPORT}{report}" if report else "")


class Heard(NamedTuple):
    """What ``told`` wrote: the note, models by the number of their output, and the last report."""

    note: str
    models: dict[int, Registration]
    report: str


def heard(message: str) -> Heard:
    """Read what ``told`` wrote."""
    message, _, report = message.partition(f"\n{REPORT}")
    note, _, line = message.partition(f"\n{MODELS}")
    models = {
        int(number): Registration(str(name), str(at), KeptModel(*kept))
        for number, (name, at, kept) in json.loads(line or "{}").items()
    }
    return Heard(note, models, report)


# What the mover has -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stores:
    """The stores of an order: where each is, and the folder in which its keys are mounted."""

    order: dict[str, Any]
    entry: dict[str, Any]

    def credentials(self, name: str) -> StoreCredentials:
        return open_store(self.order["stores"][name])

    def models(self) -> ModelFiles:
        place = self.entry["models"]
        return model_files({**place, "store": self.order["stores"][place["store"]] if place.get("store") else None})

    def cache(self) -> Cache | None:
        from .cache import Cache

        given = self.order.get("cache")
        return Cache(Path(given[0]), str(given[1]), int(given[2])) if given else None


def model_files(place: dict[str, Any]) -> ModelFiles:
    """Open the place of models: an address, and the store that opens it."""
    from .model_files import ModelFiles

    return ModelFiles.at(place["at"], open_store(place.get("store")))


def open_store(store: dict[str, Any] | None) -> StoreCredentials:
    """Read what opens a store of an order; without one, the environment has it."""
    from .credentials import OF_THE_ENVIRONMENT, StoreCredentials

    if store is None:
        return OF_THE_ENVIRONMENT
    keys = {key: _read_key(Path(store["keys"], key)) for key in KEYS} if store.get("keys") else {}
    return StoreCredentials.from_plain({"endpoint": store["endpoint"], "region": store["region"], **keys})


def _read_key(file: Path) -> str:
    """A Secret has the keys that its store needs, and often no token."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _equipment(order: dict[str, Any], entry: dict[str, Any]) -> Equipment:
    stores = _Stores(order, entry)
    return Equipment(order["writer"], stores.credentials, stores.models, stores.cache)


if __name__ == "__main__":
    main()
