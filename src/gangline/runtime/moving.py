"""Moves data from anywhere to anywhere: inputs before replicas start, results after they succeeded.

Local keepers import ``move``. On a cluster this very file travels with the job, ``trees`` and ``unpacking`` beside it,
and runs beside the training program in whatever image that has, so all three need the standard library of an old Python
and nothing else; fsspec, where it is installed, brings further storage schemes. Whatever is fetched has a draft's name
until it is whole, so an interruption leaves nothing half done.

    python3 moving.py inputs|outputs MOVES.json

Exit code 3 says that another try would end the same; the last line on standard error says why.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

if not __package__:
    # Run by its path: the folder that it and the modules it needs lie in is their package.
    __package__ = Path(__file__).absolute().parent.name
    sys.path.append(str(Path(__file__).absolute().parent.parent))

from .trees import Tree, check_is_file, copy, printable
from .unpacking import PermanentError, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator

PERMANENT_FAILURE = 3
"""The exit code by which a mover says that another try would end the same."""

TERMINATION_LOG = "/dev/termination-log"
"""Where a kubelet reads what a container wants known of its end."""

_HTTP_SECONDS = 60.0
_LANES = 8
_LOOK_SECONDS = 0.3
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs", "hf": "huggingface_hub"}
_TRANSIENT_HTTP = (408, 425, 429)


def main() -> None:
    """Move what a cluster's order says: ``inputs`` at once, ``outputs`` when the order to store them comes."""
    kind, order = sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        if kind == "inputs":
            fetch_inputs(order)
        else:
            _await_word(Path(order["word"]), order["go"])
            notes = "; ".join(filter(None, [move(entry["from"], entry["to"]) for entry in order["outputs"]]))
            sys.stderr.write(notes and f"{notes}\n")
            # A kubelet tells what a container says here even if it succeeded.
            with contextlib.suppress(OSError):
                Path(TERMINATION_LOG).write_text(notes, encoding="utf-8")
    except (PermanentError, OSError) as error:
        sys.exit(tell_failure(error))


def tell_failure(error: PermanentError | OSError) -> int:
    """Say in one sentence on standard error what went wrong, and return the exit code for it."""
    problem = str(error)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        problem = f"{error.filename2 or error.filename}: {error.strerror}"
    sys.stderr.write(printable(" ".join(problem.split())) + "\n")
    return PERMANENT_FAILURE if isinstance(error, (PermanentError, FileNotFoundError)) else 1


def fetch_inputs(order: dict[str, Any]) -> None:
    """Fetch every input that no receipt is there for. Receipts lie where the data does, if that outlives the pod."""
    receipts = Path(order["receipts"]) if order.get("receipts") else None
    with _alone(receipts):
        for entry in order["inputs"]:
            receipt = receipts / hashlib.sha256(json.dumps(entry).encode()).hexdigest() if receipts else None
            if receipt is not None and receipt.exists():
                continue
            note = _fetch_input(entry)
            sys.stderr.write(note and f"{note}\n")
            if receipt is not None:
                receipt.touch()


def _fetch_input(entry: dict[str, Any]) -> str:
    if entry.get("mounted"):
        if not Path(entry["mounted"]).is_dir():
            raise PermanentError(f"{entry['from']} is no directory")
        return ""
    if not entry.get("parts"):
        return move(entry["from"], entry["to"])
    scratch = Path(entry["scratch"])
    try:
        unpack_parts(Path(entry["parts"]), scratch)
        return move(str(scratch / entry["name"]), entry["to"])
    finally:
        _remove(scratch)


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
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _await_word(file: Path, word: str) -> None:
    """Wait until the file that the cluster keeps up to date holds a line."""
    while word not in (file.read_text(encoding="utf-8") if file.exists() else "").splitlines():
        time.sleep(_LOOK_SECONDS)


def unpack_parts(folder: Path, target: Path) -> None:
    """Join the parts of an archive, which lie in a numbered folder each, and unpack it."""
    parts = sorted(folder.glob("*/part"))
    _remove(target)
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


def move(source: str, target: str) -> str:
    """Copy a file or a directory from anywhere to anywhere; into the target if that is a directory.

    Returns what was left out and why, in a sentence; empty if nothing was.
    """
    scheme = _scheme(target)
    if scheme == "file":
        local = Path(_local_path(target))
        into_directory = local.is_dir() or target.endswith("/")
        draft = (local if local.is_dir() else local.parent) / _draft_name(source, target)
        try:
            _remove(draft)
            draft.parent.mkdir(parents=True, exist_ok=True)
            note = _fetch(source, draft)
            _install(draft, local / _last_part(source) if into_directory and not draft.is_dir() else local)
            return note
        except OSError as error:
            _name_target(error, draft, local)
            raise
        finally:
            with contextlib.suppress(OSError):
                _remove(draft)
    if scheme in ("http", "https"):
        raise PermanentError(f"{target}: nothing can be stored over {scheme}; use a path or an object store")
    if _scheme(source) != "file":
        raise PermanentError(f"{source}: only local files can be stored in {scheme}://")
    return _upload(Path(_local_path(source)), target)


def _name_target(error: OSError, draft: Path, target: Path) -> None:
    """Have an error name what its user knows."""
    for name in ("filename", "filename2"):
        if isinstance(path := getattr(error, name), str):
            setattr(error, name, path.replace(str(draft), str(target)))


def _draft_name(source: str, target: str) -> str:
    """A name that no other replica and no other job uses, for many may move into one directory at a time."""
    return f".gangline-draft-{os.uname().nodename}-{hashlib.sha256(f'{source}|{target}'.encode()).hexdigest()[:12]}"


def _fetch(source: str, draft: Path) -> str:
    scheme = _scheme(source)
    if scheme == "file":
        return copy(Path(_local_path(source)), draft)
    if scheme in ("http", "https"):
        _download(source, draft)
    else:
        filesystem, path_there = _remote(source)
        if filesystem.isdir(path_there):
            filesystem.get(path_there.rstrip("/") + "/", f"{draft}/", recursive=True)
        else:
            filesystem.get_file(path_there, str(draft))
    return ""


def _download(source: str, draft: Path) -> None:
    # Imported here: every local job with code passes through this module, and few of them fetch anything by HTTP.
    import urllib.error
    import urllib.request

    try:
        # The scheme was checked by the caller: only http and https arrive here.
        with urllib.request.urlopen(source, timeout=_HTTP_SECONDS) as response, draft.open("wb") as file:
            shutil.copyfileobj(response, file, 1 << 20)
            expected = response.headers.get("Content-Length")
            if expected is not None and file.tell() != int(expected):
                raise OSError(f"{source}: the connection ended after {file.tell()} of {expected} bytes")
    except urllib.error.HTTPError as error:
        problem = f"{source}: the server answered {error.code} {error.reason}"
        if error.code < 500 and error.code not in _TRANSIENT_HTTP:
            raise PermanentError(problem) from error
        raise OSError(problem) from error
    except urllib.error.URLError as error:
        raise OSError(f"{source}: {error.reason}") from error


def _upload(source: Path, target: str) -> str:
    filesystem, path_there = _remote(target)
    if not source.is_dir():
        check_is_file(source)
        # The path has lost a slash at its end, which says that it is a directory.
        filesystem.put_file(str(source), f"{path_there.rstrip('/')}/{source.name}" if target[-1] == "/" else path_there)
        return ""
    # As for HTTP: few jobs come here.
    from concurrent.futures import ThreadPoolExecutor

    tree = Tree(source, keep_links=False)
    root = path_there.rstrip("/")
    entries = list(tree)
    for folder in ("", *(f"/{entry.name}" for entry in entries if entry.is_directory)):
        filesystem.makedirs(root + folder, exist_ok=True)
    files = [(str(entry.path), f"{root}/{entry.name}") for entry in entries if not entry.is_directory]
    # Only file systems that do their work in an event loop of their own may be used by several threads.
    with ThreadPoolExecutor(_LANES if getattr(filesystem, "async_impl", False) else 1) as lanes:
        list(lanes.map(lambda pair: filesystem.put_file(*pair), files))
    return tree.note()


def _remote(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it. fsspec is optional and untyped: ``Any`` ends here."""
    scheme = _scheme(url)
    package = _PACKAGES.get(scheme, "fsspec")
    try:
        filesystem, path = importlib.import_module("fsspec.core").url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise PermanentError(f"{scheme}:// needs the package {package}: pip install {package} ({error})") from error
    return filesystem, path


def _install(draft: Path, target: Path) -> None:
    """Give a whole draft its name. Into a directory that exists, entry by entry: others may have put theirs there."""
    if _is_directory(draft) and target.is_dir():
        for entry in draft.iterdir():
            if (target / entry.name).is_symlink():
                # Nothing is put where a link leads to: that may be another part of what is copied.
                (target / entry.name).unlink()
            _install(entry, target / entry.name)
        draft.rmdir()
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if _is_directory(target) != _is_directory(draft):
            _remove(target)
        draft.replace(target)


def _remove(path: Path) -> None:
    if _is_directory(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _scheme(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    return scheme.lower() if separator else "file"


def _local_path(url: str) -> str:
    path = urllib.parse.unquote(urllib.parse.urlsplit(url).path) if "://" in url else url
    if not path.startswith("/"):
        raise PermanentError(f"{url} is a relative path; write it from the root, or use $DATA_DIR and its kin")
    return path


def _last_part(source: str) -> str:
    path = urllib.parse.urlsplit(source).path if "://" in source else source
    return path.rstrip("/").rpartition("/")[2] or "download"


if __name__ == "__main__":
    main()
