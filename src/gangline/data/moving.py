"""Moves data between places of a machine, and to it from web servers: inputs before replicas start, results after.

Whatever is fetched has a draft's name until it is whole, so an interruption leaves nothing half done.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from .addresses import parse, scheme_of
from .trees import content_digest, copy, printable
from .unpacking import PermanentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .progress import Meter

PERMANENT_FAILURE = 3
"""The exit code by which a mover says that another try would end the same."""

_LONGEST = 500
"""How many characters of a failure are told."""
_BLOCK = 1 << 20
_HTTP_SECONDS = 60.0
_PARTIAL = 206
_PATIENCE_SECONDS = 120.0
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_RENAMING_SECONDS = 30.0
_LOOK_SECONDS = 0.02
_TRANSIENT_HTTP = (408, 425, 429)


def tell_failure(error: PermanentError | OSError) -> int:
    """Say in one sentence on standard error what went wrong, and return the exit code for it."""
    problem = str(error)
    if isinstance(error, OSError) and error.strerror:
        # Without the number, which means nothing to a user.
        place = error.filename2 or error.filename
        problem = f"{place}: {error.strerror}" if place is not None else error.strerror
    unreadable = isinstance(error, PermissionError) and _is_unreadable(error.filename)
    if unreadable:
        problem += "; whoever moves the data may not read it: make it readable (chmod -R u+rX)"
    sentence = printable(" ".join(problem.split()))
    if len(sentence) > _LONGEST:  # a path may have 4,096 characters
        sentence = f"{sentence[: _LONGEST // 2]} ... {sentence[-_LONGEST // 2 :]}"
    sys.stderr.write(f"{sentence}\n")
    return PERMANENT_FAILURE if unreadable or isinstance(error, (PermanentError, FileNotFoundError)) else 1


def _is_unreadable(path: object) -> bool:
    """Whether it is there, in a directory that can be looked into, and cannot be read itself."""
    if not isinstance(path, str) or not os.path.lexists(path):
        return False
    return not os.access(path, os.R_OK | os.X_OK if Path(path).is_dir() else os.R_OK)


def move(source: str, target: str, meter: Meter | None = None, wanted: Callable[[str], bool] | None = None) -> str:
    """Copy a file or a directory, or what a web server has, to a place of this machine; into it if it is a directory.

    Returns what was left out and why, in a sentence; empty if nothing was. A ``meter`` is told how far it is and what
    came; it costs reading that once more. ``wanted`` says which files of a directory are meant, by their paths in it.
    """
    if scheme_of(target) in ("http", "https"):
        raise PermanentError(f"{target}: nothing can be stored over http; use a path or an object store")
    local = Path(parse(target).local_path())
    into_directory = local.is_dir() or target.endswith("/")
    draft = (local if local.is_dir() else local.parent) / draft_name(source, target)
    try:
        remove(draft)
        draft.parent.mkdir(parents=True, exist_ok=True)
        note = _fetch(source, draft, meter, wanted)
        if meter is not None:
            meter.digest = content_digest(draft)
        install(draft, local / parse(source).last_part if into_directory and not draft.is_dir() else local)
        return note
    except OSError as error:
        name_target(error, draft, local)
        raise
    finally:
        with contextlib.suppress(OSError):
            remove(draft)


def name_target(error: OSError, draft: Path, target: Path) -> None:
    """Have an error name what its user knows; one of a full disk names nothing by itself."""
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
        error.filename = str(target)
    for name in ("filename", "filename2"):
        if isinstance(path := getattr(error, name), str):
            setattr(error, name, path.replace(str(draft), str(target)))


def draft_name(source: str, target: str) -> str:
    """A name that no other replica and no other job uses, for many may move into one directory at a time."""
    return f".gangline-draft-{os.uname().nodename}-{hashlib.sha256(f'{source}|{target}'.encode()).hexdigest()[:12]}"


def _fetch(source: str, draft: Path, meter: Meter | None, wanted: Callable[[str], bool] | None) -> str:
    if scheme_of(source) in ("http", "https"):
        _download(source, draft, meter)
        return ""
    return copy(Path(parse(source).local_path()), draft, meter, wanted)


def _download(source: str, draft: Path, meter: Meter | None) -> None:
    """Fetch by HTTP. A server that is busy or cuts its answer is asked again, for the rest if it can send that."""
    deadline, pause = time.monotonic() + _PATIENCE_SECONDS, _FIRST_PAUSE_SECONDS
    with draft.open("wb") as file:
        fetch = _HttpFetch(source, file, meter)
        while True:
            try:
                return fetch.request()
            except _CutError as error:
                if time.monotonic() + pause > deadline:
                    raise OSError(str(error)) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


class _CutError(Exception):
    """A request failed in a way that another one may not."""


class _HttpFetch:
    """Fetches one file, in as many requests as it takes."""

    def __init__(self, source: str, file: BinaryIO, meter: Meter | None) -> None:
        self._source, self._file, self._meter = source, file, meter
        self._tag = ""
        """What tells the content that has come so far from any other."""
        self._reached = self._expected = False

    def request(self) -> None:
        """Ask for what the file has not yet; raises _CutError where another request may bring it."""
        # Imported here: every local job with code passes through this module, and few of them fetch anything by HTTP.
        import http.client
        import urllib.error
        import urllib.request

        begin = self._file.tell() if self._tag else 0
        headers = {"Range": f"bytes={begin}-", "If-Range": self._tag} if begin else {}
        try:
            # The scheme was checked by the caller: only http and https arrive here.
            request = urllib.request.Request(self._source, headers=headers)
            with urllib.request.urlopen(request, timeout=_HTTP_SECONDS) as response:
                self._reached = True
                self._receive(response, begin if response.status == _PARTIAL else 0)
        except urllib.error.HTTPError as error:
            self._reached = True
            problem = f"{self._source}: the server answered {error.code} {error.reason}"
            if error.code < 500 and error.code not in _TRANSIENT_HTTP:
                raise PermanentError(problem) from error
            raise _CutError(problem) from error
        except urllib.error.URLError as error:
            # A server that nobody has heard of yet is more likely a wrong name than a busy one.
            kind = _CutError if self._reached else OSError
            raise kind(f"{self._source}: {error.reason}") from error
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            raise _CutError(f"{self._source}: the connection was lost ({error!r})") from error

    def _receive(self, response: Any, begin: int) -> None:
        self._count(begin - self._file.tell())
        self._file.seek(begin)
        self._file.truncate()
        tag = response.headers.get("ETag") or ""
        self._tag = "" if tag.startswith("W/") else tag
        length = response.headers.get("Content-Length")
        if self._meter is not None and not self._expected:
            self._meter.expect(int(length or 0), 1)
            self._expected = True
        block = response.read(_BLOCK)
        while block:
            self._file.write(block)
            self._count(len(block))
            block = response.read(_BLOCK)
        if length is not None and self._file.tell() != begin + int(length):
            total = begin + int(length)
            raise _CutError(f"{self._source}: the connection ended after {self._file.tell()} of {total} bytes")

    def _count(self, moved: int) -> None:
        if self._meter is not None and moved:
            self._meter.add(moved)


def install(draft: Path, target: Path) -> None:
    """Give a whole draft its name. Into a directory that exists, entry by entry: others may have put theirs there.

    One after the other, where several put theirs at one place: what is there in the end is never a mixture.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(target.parent):
        _install(draft, target)


@contextlib.contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Keep others out of a directory for the moment that renaming takes.

    Not forever: anybody who can read the directory can hold such a lock, and some file systems have none.
    """
    deadline = time.monotonic() + _RENAMING_SECONDS
    with contextlib.ExitStack() as held:
        with contextlib.suppress(ModuleNotFoundError, OSError):
            import fcntl  # only Unix has it

            descriptor = os.open(directory, os.O_RDONLY)
            held.callback(os.close, descriptor)
            while time.monotonic() < deadline:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(_LOOK_SECONDS)
        yield


def _install(draft: Path, target: Path) -> None:
    if _is_directory(draft) and target.is_dir():
        for entry in draft.iterdir():
            if (target / entry.name).is_symlink():
                # Nothing is put where a link leads to: that may be another part of what is copied.
                (target / entry.name).unlink()
            _install(entry, target / entry.name)
        draft.rmdir()
    else:
        if _is_directory(target) != _is_directory(draft):
            remove(target)
        draft.replace(target)


def remove(path: Path) -> None:
    """Remove a file, a link or a directory."""
    if _is_directory(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
