"""How a folder of an object store becomes whole: a claim first, a manifest last.

An object store has no rename, so a folder's objects appear one by one. Its writer therefore begins with a claim, which
says that the folder is not whole and lists what was stored so far, and ends with a manifest in place of the claim.
Gangline reads nothing from a folder with a claim. The claim of a writer that was killed is taken over by the next try
of the same writer, from any machine, and by others once nobody has renewed it for a while.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from .lanes import StoreError
from .manifests import CLAIM, MANIFEST, FileFacts, Manifest
from .stores import ChangedError, Folder, MissingError, TakenError
from .unpacking import PermanentError

_RENEW_SECONDS = 15.0
_HEARTBEAT_SECONDS = 60.0
_ABANDONED_SECONDS = 600.0


class BusyError(StoreError):
    """Somebody else writes there."""


class Commit:
    """The right to write a folder, from ``begin`` to ``finish``."""

    def __init__(self, folder: Folder, claim: Manifest, tag: str, before: Manifest) -> None:
        self._folder = folder
        self._claim = claim
        self._tag = tag
        self.before = before
        """What was known of the folder's files when this began, by its manifest and by an earlier try of this."""
        self._files: dict[str, FileFacts] = {}
        self._lock = threading.Lock()
        self._renewed_at = time.monotonic()

    @classmethod
    def begin(cls, folder: Folder, writer: str) -> "Commit":
        """Claim a folder; raises BusyError if another writer has it."""
        before = _read(folder, MANIFEST)[0]
        claim = Manifest(writer=writer)
        try:
            return cls(folder, claim, folder.write(CLAIM, claim.encode(), mode="create"), before)
        except TakenError:
            pass
        found, tag, age = _read(folder, CLAIM)
        if found.writer != writer and age < _ABANDONED_SECONDS:
            raise BusyError(f"{folder.address.text} is being written by {found.writer or 'somebody else'}")
        before = replace(before, files={**before.files, **found.files})
        claim = replace(claim, files=found.files)
        return cls(folder, claim, _renew(folder, claim, tag), before)

    @contextlib.contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew the claim meanwhile, also while a single file takes longer to store than a claim lasts."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(_HEARTBEAT_SECONDS):
                with contextlib.suppress(OSError, PermanentError):  # told by the next file, or at the end
                    self._renew()

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def stored(self, name: str, facts: FileFacts) -> None:
        """Note a file that is stored. The claim is renewed now and then, with all of them."""
        with self._lock:
            self._files[name] = facts
        self._renew()

    def _renew(self) -> None:
        with self._lock:
            if time.monotonic() - self._renewed_at < _RENEW_SECONDS:
                return
            self._renewed_at = time.monotonic()
            self._claim = replace(self._claim, files={**self._claim.files, **self._files})
            self._tag = _renew(self._folder, self._claim, self._tag)

    def finish(self, present: Mapping[str, str]) -> Mapping[str, FileFacts]:
        """Make the folder whole, and return what was stored. ``present`` are the tags of all that lies there."""
        for name, facts in self._files.items():
            if name not in present:
                raise StoreError(f"{self._folder.address.text}: {name} is gone again right after it was stored")
            if present[name] != facts.e_tag:
                raise BusyError(f"{self._folder.address.text}: {name} was overwritten by somebody else meanwhile")
        kept = {name: facts for name, facts in self.before.files.items() if present.get(name) == facts.e_tag}
        # A claim that somebody took over meanwhile must not be ended by this one.
        self._tag = _renew(self._folder, self._claim, self._tag)
        self._folder.write(MANIFEST, Manifest({**kept, **self._files}, self._claim.writer).encode())
        self._folder.delete([CLAIM])
        return self._files


def _renew(folder: Folder, claim: Manifest, tag: str) -> str:
    try:
        return folder.write(CLAIM, claim.encode(), mode=tag)
    except (ChangedError, MissingError):
        raise BusyError(f"{folder.address.text} was taken over by another writer") from None


def _read(folder: Folder, name: str) -> tuple[Manifest, str, float]:
    """A manifest or claim, its tag and its age; an empty one if there is none."""
    with contextlib.suppress(MissingError):
        text, entry = folder.read_small(name)
        where = f"{folder.address.text.rstrip('/')}/{name}"
        with contextlib.suppress(PermanentError):
            return Manifest.decode(text, where), entry.state, time.time() - entry.modified
        return Manifest(), entry.state, time.time() - entry.modified
    return Manifest(), "", float("inf")
