"""Checkpoints on disk: saved whole or not at all, checked when read, the newest few kept.

A checkpoint is a directory `step-<number>` with the caller's files and a manifest of sizes and checksums. It is
written under a hidden name, forced to disk and then renamed, so that a crash at any instant leaves either the whole
checkpoint or none. Training code calls this, and so does the parameter server for its snapshots.
"""

from __future__ import annotations

import atexit
import errno
import itertools
import json
import os
import re
import shutil
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangline.runtime.checkpoint_address import CheckpointAddress, RankPart
from gangline.runtime.checkpoint_sidecar import SidecarPlace
from gangline.runtime.errors import CorruptCheckpointError
from gangline.runtime.metrics import report
from gangline.runtime.mirror import Mirror
from gangline.runtime.replica import Replica, current

if TYPE_CHECKING:
    import numpy as np

    from gangline.data.credentials import StoreCredentials

MANIFEST = "manifest.json"
ARRAYS = "arrays.npz"
CHUNK_BYTES = 1 << 20
_FINISHED = re.compile(r"step-(\d+)")
_UNFINISHED = re.compile(r"\.(?:writing|replaced)-\d+-(?P<host>.+)-(?P<pid>\d+)")
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
_numbers = itertools.count()
_drafts: set[str] = set()
"""Names that this very process writes under now: no leftovers, though they bear its id."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A finished checkpoint: the step it was taken at and the directory that holds its files."""

    step: int
    path: Path


class Checkpoints:
    """The checkpoints of one directory. Any number may read.

    One replica should save. Where several save the same step, the last of them wins.

    ``keep`` and ``to`` are those of the job's file (``spec.checkpoints``) unless they are given; ``to=""`` is nowhere.
    With ``to``, a directory or an address such as ``s3://bucket/run``, each checkpoint is also written there in the
    background, and ``latest`` finds it on another machine. There, every rank of ``world`` saves its own part, each into
    a directory of its own, and the checkpoint exists once all parts do. ``credentials`` are a
    ``gangline.data.credentials.StoreCredentials``; without them, those of the environment.
    """

    def __init__(
        self,
        directory: Path | str,
        keep: int | None = None,
        *,
        to: str | None = None,
        credentials: StoreCredentials | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        replica = current()
        keep = replica.checkpoint_keep if keep is None else keep
        if keep < 1:
            raise ValueError(f"keep={keep}: at least one checkpoint must be kept")
        if not 0 <= rank < world:
            raise ValueError(f"rank={rank}: ranks are counted from 0, and world={world} is how many there are")
        self._directory = Path(directory)
        self._keep = keep
        self._mirror: Mirror | None = None
        self._world = world
        part = RankPart(rank=rank, world=world, keep=keep, attempt=replica.attempt, resume_from=replica.resume_from)
        if to or (to is None and replica.checkpoint_to):
            self._mirror = _mirror(self._directory, to, credentials, part, replica)
        if self._mirror is not None:
            # A program that does not know of the address does not wait for it either.
            atexit.register(self._mirror.finish)
        self._every = replica.checkpoint_seconds
        self._saved_at = _now_if(self._every)

    def due(self) -> bool:
        """Whether it is time for another: as often as the job's file says (``checkpoints.every``), else always."""
        return self._every is None or time.monotonic() - self._saved_at >= self._every

    def save(self, step: int, write: Callable[[Path], None]) -> Checkpoint:
        """Save one checkpoint: `write` is handed an empty directory and fills it.

        When `write` raises, nothing is left behind and the error goes on to the caller. Inside a job, the metric
        `checkpoint` tells the platform that work up to this step is safe.
        """
        step = int(step)  # frameworks count in types of their own
        if step < 0:
            raise ValueError(f"step={step}: steps are counted from 0")
        self._directory.mkdir(parents=True, exist_ok=True)
        self._remove_unfinished()
        final = self._directory / f"step-{step:012d}"
        draft = self._hidden("writing")
        _drafts.add(draft.name)
        try:
            draft.mkdir()
            write(draft)
            _write_manifest(draft, step)
            self._publish(draft, final)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        finally:
            _drafts.discard(draft.name)
        if self._mirror is not None:
            self._mirror.offer(step, final)
        self._remove_old(final)
        self._saved_at = _now_if(self._every)
        # Whoever must choose whose work to interrupt should know what is safe.
        report(step=step, checkpoint=step)
        return Checkpoint(step, final)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until what was saved is at its address too; False if that takes longer than ``timeout`` seconds.

        Raises MirrorError if the newest could not be written there. Call it before the program ends.
        """
        return self._mirror is None or self._mirror.wait(timeout)

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that matches its manifest; a corrupt one is passed over for the one before it.

        Of several ranks, each gets the step that all of them have at the address, with its own part.
        """
        whole = self._mirror.place.newest() if self._mirror is not None else None
        here = self._latest_here()
        if whole is None:
            # Of several ranks, one may have saved what the others have not.
            return here if self._mirror is None or self._world == 1 else None
        if here is not None and self._world == 1 and here.step >= whole[0]:
            return here
        return self._bring(*whole)

    def _latest_here(self) -> Checkpoint | None:
        for checkpoint in self.all():
            try:
                verify(checkpoint)
            except CorruptCheckpointError:
                continue
            return checkpoint
        return None

    def all(self) -> list[Checkpoint]:
        """Every finished checkpoint, newest first, unverified; not those after one that the user chose instead."""
        return [found for found in self._all() if not _is_abandoned(found)]

    def _all(self) -> list[Checkpoint]:
        if not self._directory.is_dir():
            return []
        matches = ((_FINISHED.fullmatch(entry.name), entry) for entry in self._directory.iterdir())
        found = [Checkpoint(int(match[1]), entry) for match, entry in matches if match]
        return sorted(found, key=lambda checkpoint: checkpoint.step, reverse=True)

    def _bring(self, step: int, attempt: int) -> Checkpoint:
        """Have the checkpoint of an address here: the one that lies here already, if it is whole, or a copy of it."""
        assert self._mirror is not None
        checkpoint = Checkpoint(step, self._directory / f"step-{step:012d}")
        with suppress(CorruptCheckpointError):
            if _attempt_of(checkpoint) == attempt:
                verify(checkpoint)
                return checkpoint
        shutil.rmtree(checkpoint.path, ignore_errors=True)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._mirror.place.fetch(step, attempt, checkpoint.path)
        verify(checkpoint)
        return checkpoint

    def _hidden(self, purpose: str) -> Path:
        return self._directory / f".{purpose}-{next(_numbers)}-{socket.gethostname()}-{os.getpid()}"

    def _publish(self, draft: Path, final: Path) -> None:
        replaced = []
        while True:
            if final.exists():
                replaced.append(self._hidden("replaced"))
                with suppress(FileNotFoundError):  # another writer was quicker
                    final.rename(replaced[-1])
            try:
                draft.rename(final)
                break
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
        _force_to_disk(self._directory)
        for path in replaced:
            shutil.rmtree(path, ignore_errors=True)

    def _remove_old(self, saved: Path) -> None:
        # What was just saved stays, even among later steps of an earlier run.
        old = [found for found in self._all() if _is_abandoned(found)] + self.all()[self._keep :]
        for checkpoint in old:
            if checkpoint.path != saved and not (self._mirror and self._mirror.needs(checkpoint.path)):
                shutil.rmtree(checkpoint.path, ignore_errors=True)

    def _remove_unfinished(self) -> None:
        """Sweep what a crashed writer on this machine left. A writer elsewhere may be alive: leave its draft alone."""
        for entry in self._directory.iterdir():
            match = _UNFINISHED.fullmatch(entry.name)
            if (
                match
                and match["host"] == socket.gethostname()
                and entry.name not in _drafts
                and not _other_lives(int(match["pid"]))
            ):
                shutil.rmtree(entry, ignore_errors=True)


def verify(checkpoint: Checkpoint) -> None:
    """Compare a checkpoint's files with its manifest; raises CorruptCheckpointError naming the first difference."""
    path = checkpoint.path
    try:
        files: dict[str, dict[str, int]] = json.loads((path / MANIFEST).read_text())["files"]
        for name, expected in files.items():
            size = (path / name).stat().st_size
            if size != expected["bytes"]:
                raise CorruptCheckpointError(path, f"{name} has {size} bytes, not {expected['bytes']}")
            if _checksum(path / name) != expected["crc32"]:
                raise CorruptCheckpointError(path, f"{name} does not match its checksum")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptCheckpointError(path, str(error)) from error


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write named arrays into a checkpoint's directory, without pickle. For use inside `Checkpoints.save`."""
    # Written through zipfile rather than savez(**arrays): there a parameter named "file" would not survive.
    import zipfile

    import numpy as np

    with zipfile.ZipFile(path / ARRAYS, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read what `save_arrays` wrote."""
    import numpy as np

    with np.load(path / ARRAYS, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _write_manifest(directory: Path, step: int) -> None:
    files = [entry for entry in sorted(directory.rglob("*")) if entry.is_file()]
    facts = {
        str(file.relative_to(directory)): {"bytes": file.stat().st_size, "crc32": _checksum(file)} for file in files
    }
    manifest = directory / MANIFEST
    if manifest.exists():
        raise ValueError(f"'{MANIFEST}' is the name of a checkpoint's own list of files: give yours another name")
    manifest.write_text(json.dumps({"step": step, "attempt": current().attempt, "files": facts}, indent=1))
    for entry in [*files, manifest, *(folder for folder in directory.rglob("*") if folder.is_dir()), directory]:
        _force_to_disk(entry)


def _now_if(every: float | None) -> float:
    return 0.0 if every is None else time.monotonic()


def _mirror(
    directory: Path, to: str | None, credentials: StoreCredentials | None, part: RankPart, replica: Replica
) -> Mirror | None:
    """Return what writes a directory's checkpoints to an address as well; None if they have none."""
    from gangline.data.credentials import OF_THE_ENVIRONMENT

    if to:
        return Mirror(to, CheckpointAddress(to.rstrip("/"), credentials or OF_THE_ENVIRONMENT, part))
    below = _below(directory, replica, part.world)
    if below is None:
        return None
    at = f"{replica.checkpoint_to}".rstrip("/") + (f"/{below}" if below else "")
    if replica.checkpoint_socket is not None:
        return Mirror(at, SidecarPlace(at, replica.checkpoint_socket, below, part))
    return Mirror(at, CheckpointAddress(at, _given_keys(replica) or OF_THE_ENVIRONMENT, part))


def _below(directory: Path, replica: Replica, world: int) -> str | None:
    """Which folder of the job's address is this directory's: CHECKPOINT_DIR is all of it; None for one elsewhere.

    The directory that each of several ranks has for itself does not count: the ranks meet in the one above.
    """
    home, own = replica.checkpoint_directory.resolve(), directory.resolve()
    if own == home:
        return ""
    if home not in own.parents:
        return None
    folder = own.relative_to(home) if world == 1 else own.parent.relative_to(home)
    return "" if folder == Path() else str(folder)


def _given_keys(replica: Replica) -> StoreCredentials | None:
    """The keys of the store that the job's file names."""
    if replica.checkpoint_keys is None:
        return None
    from gangline.data.credentials import StoreCredentials

    file, name = replica.checkpoint_keys
    return StoreCredentials.from_plain(json.loads(file.read_text(encoding="utf-8"))[name])


def _is_abandoned(checkpoint: Checkpoint) -> bool:
    replica = current()
    return replica.resume_from is not None and replica.abandons(checkpoint.step, _attempt_of(checkpoint) or 0)


def _attempt_of(checkpoint: Checkpoint) -> int | None:
    try:
        return int(json.loads((checkpoint.path / MANIFEST).read_text())["attempt"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _checksum(file: Path) -> int:
    value = 0
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            value = zlib.crc32(chunk, value)
    return value


def _force_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _other_lives(pid: int) -> bool:
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
