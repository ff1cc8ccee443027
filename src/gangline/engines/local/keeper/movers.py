"""The stage program: unpacks code and moves data, as a child of the keeper.

``prepare DIRECTORY REPLICA...`` makes the replicas' directories and fetches the inputs; ``outputs DIRECTORY`` stores
the results. Whatever is fetched has a draft's name until it is whole, so an interruption leaves nothing half done. Exit
code 3 says that another try would end the same; the last line on standard error says why.
"""

from __future__ import annotations

import hashlib
import importlib
import shutil
import sys
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from .launch import SCRATCH_FOLDERS
from .orders import Order
from .stages import PERMANENT_FAILURE

_DRAFT = ".gangline-draft"
_HTTP_SECONDS = 60.0
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs", "hf": "huggingface_hub"}
_TRANSIENT_HTTP = (408, 425, 429)


class PermanentError(Exception):
    """Another try would end the same."""


def main() -> None:
    """Do one stage, named by the arguments."""
    kind, directory, *replicas = sys.argv[1:]
    order = Order(f"{directory}/order.json")
    try:
        if kind == "prepare":
            prepare(order, Path(directory), replicas)
        else:
            for source, target in order.outputs:
                move(source, target)
    except (PermanentError, FileNotFoundError, tarfile.TarError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(PERMANENT_FAILURE)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


def prepare(order: Order, directory: Path, replicas: list[str]) -> None:
    """Fetch what was not fetched by an earlier attempt, and give each replica its own copy of the code."""
    for source, target in order.inputs:
        receipt = Path(order.receipts, hashlib.sha256(f"{source}\0{target}".encode()).hexdigest())
        if not receipt.exists():
            move(source, target)
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
            unpack(Path(order.code_archive), draft / "work")
        else:
            (draft / "work").mkdir(mode=0o700)
        draft.rename(directory / "scratch" / replica)
        unpacked = directory / "scratch" / replica / "work"


def unpack(archive: Path, target: Path) -> None:
    """Unpack a code archive; members that point outside it are refused."""
    if not archive.exists():
        raise PermanentError(f"the code archive {archive.name} is not here; submit the job again")
    if not hasattr(tarfile, "data_filter"):
        raise PermanentError("unpacking code safely needs Python 3.11.4 or later")
    target.mkdir(mode=0o700)
    with tarfile.open(archive) as members:
        members.extractall(target, filter="data")


def move(source: str, target: str) -> None:
    """Copy a file or a directory from anywhere to anywhere; into the target if that is a directory."""
    scheme = _scheme(target)
    if scheme == "file":
        local = Path(_local_path(target))
        into_directory = local.is_dir() or target.endswith("/")
        draft = (local if local.is_dir() else local.parent) / _DRAFT
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
