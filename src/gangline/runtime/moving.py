"""Moves data from anywhere to anywhere: inputs before replicas start, results after they succeeded.

Local keepers import ``move``. On a cluster this very file travels with the job and runs beside the training program,
in whatever image that has, so it needs the standard library of an old Python and nothing else; fsspec, where it is
installed, brings further storage schemes. Whatever is fetched has a draft's name until it is whole, so an interruption
leaves nothing half done.

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
import tarfile
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

PERMANENT_FAILURE = 3
"""The exit code by which a mover says that another try would end the same."""

_HTTP_SECONDS = 60.0
_LOOK_SECONDS = 0.3
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs", "hf": "huggingface_hub"}
_TRANSIENT_HTTP = (408, 425, 429)


class PermanentError(Exception):
    """Another try would end the same."""


def main() -> None:
    """Move what a cluster's order says: ``inputs`` at once, ``outputs`` when the order to store them comes."""
    kind, order = sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        if kind == "inputs":
            fetch_inputs(order)
        else:
            _await_word(Path(order["word"]), order["go"])
            for entry in order["outputs"]:
                move(entry["from"], entry["to"])
    except (PermanentError, FileNotFoundError, tarfile.TarError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(PERMANENT_FAILURE)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


def fetch_inputs(order: dict[str, Any]) -> None:
    """Fetch every input that no receipt is there for. Receipts lie where the data does, if that outlives the pod."""
    receipts = Path(order["receipts"]) if order.get("receipts") else None
    with _alone(receipts):
        for entry in order["inputs"]:
            receipt = receipts / hashlib.sha256(json.dumps(entry).encode()).hexdigest() if receipts else None
            if receipt is not None and receipt.exists():
                continue
            _fetch_input(entry)
            if receipt is not None:
                receipt.touch()


def _fetch_input(entry: dict[str, Any]) -> None:
    if entry.get("mounted"):
        if not Path(entry["mounted"]).is_dir():
            raise PermanentError(f"{entry['from']} is no directory")
    elif entry.get("parts"):
        scratch = Path(entry["scratch"])
        try:
            unpack_parts(Path(entry["parts"]), scratch)
            move(str(scratch / entry["name"]), entry["to"])
        finally:
            _remove(scratch)
    else:
        move(entry["from"], entry["to"])


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
    with _Joined(parts) as stream, tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|gz") as members:
        _extract(members, target)


def keep_links(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo | None:
    """Unpack code as ``filter="data"`` does, but leave a symbolic link as its user made it, wherever it leads.

    People link to their data. Whatever would be written through a link out of the directory is refused all the same.
    """
    return tarfile.tar_filter(member, target) if member.issym() else tarfile.data_filter(member, target)


def _extract(members: tarfile.TarFile, target: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        members.extractall(target, filter=keep_links)
    else:
        members.extractall(target)  # an old Python; the archive is the user's own, for the user's own container


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


def move(source: str, target: str) -> None:
    """Copy a file or a directory from anywhere to anywhere; into the target if that is a directory."""
    scheme = _scheme(target)
    if scheme == "file":
        local = Path(_local_path(target))
        into_directory = local.is_dir() or target.endswith("/")
        draft = (local if local.is_dir() else local.parent) / _draft_name()
        _remove(draft)
        draft.parent.mkdir(parents=True, exist_ok=True)
        try:
            _fetch(source, draft)
            _install(draft, local / _last_part(source) if into_directory and not draft.is_dir() else local)
        finally:
            _remove(draft)
    elif scheme in ("http", "https"):
        raise PermanentError(f"{target}: nothing can be stored over {scheme}; use a path or an object store")
    elif _scheme(source) != "file":
        raise PermanentError(f"{source}: only local files can be stored in {scheme}://")
    else:
        _upload(Path(_local_path(source)), target)


def _draft_name() -> str:
    """A name that no other replica uses: on a shared volume several may fetch into one directory."""
    return f".gangline-draft-{os.uname().nodename}"


def _fetch(source: str, draft: Path) -> None:
    scheme = _scheme(source)
    if scheme == "file":
        path = Path(_local_path(source))
        if path.is_dir():
            shutil.copytree(path, draft, ignore_dangling_symlinks=True)
        else:
            shutil.copy2(path, draft)
    elif scheme in ("http", "https"):
        _download(source, draft)
    else:
        filesystem, path_there = _remote(source)
        if filesystem.isdir(path_there):
            filesystem.get(path_there.rstrip("/") + "/", f"{draft}/", recursive=True)
        else:
            filesystem.get_file(path_there, str(draft))


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


def _upload(source: Path, target: str) -> None:
    filesystem, path_there = _remote(target)
    if source.is_dir():
        filesystem.put(f"{source}/", path_there.rstrip("/") + "/", recursive=True)
    elif source.exists():
        there = path_there + source.name if path_there.endswith("/") else path_there
        filesystem.put_file(str(source), there)
    else:
        raise FileNotFoundError(f"{source} does not exist")


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
    if draft.is_dir() and target.is_dir():
        for entry in draft.iterdir():
            _install(entry, target / entry.name)
        draft.rmdir()
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() != draft.is_dir():
            _remove(target)
        draft.replace(target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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
