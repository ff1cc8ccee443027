"""One transfer, from an address to an address: the entry of this package.

A mover calls ``transfer`` with plain values. Object stores are spoken to here; everything else goes to ``moving``.
"""

import contextlib
import errno
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from .addresses import Address, parse
from .archives import unpack_archive
from .cache import Cache
from .credentials import OF_THE_ENVIRONMENT, StoreCredentials
from .downloads import RewrittenError, download, look
from .manifests import Patterns
from .moving import draft_name, install, move, name_target, remove
from .nfs import mounted
from .progress import Meter
from .stores import Folder
from .unpacking import Limits, PermanentError
from .uploads import upload_file, upload_folder

_MOST_UNPACKED_FILES = 5_000_000
_HERE = ("file", "http", "https")
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What is to be moved, and how."""

    source: str
    target: str
    credentials: StoreCredentials = OF_THE_ENVIRONMENT
    patterns: Patterns = field(default_factory=Patterns)
    unpack: bool = False
    """Whether the source is an archive, whose content is wanted."""
    writer: str = "gangline"
    """Who stores: the same for every try, another for everybody else."""
    patience_seconds: float = 120.0


def transfer(order: Transfer, *, meter: Meter | None = None, cache: Cache | None = None) -> str:
    """Move it; returns what was left out and why. Raises PermanentError, or OSError where another try may help."""
    source, target = parse(order.source), parse(order.target)
    for name, address in (("source", source), ("target", target)):
        if address.scheme == "nfs":
            with mounted(address, writable=name == "target") as place:
                there = f"{place}/" if address.is_folder else str(place)
                changed = replace(order, source=there) if name == "source" else replace(order, target=there)
                return transfer(changed, meter=meter, cache=cache)
    for address in (source, target):
        if not address.in_object_store and address.scheme not in _HERE:
            raise PermanentError(f"{address.text}: {address.scheme}:// cannot be reached from here")
    if target.in_object_store:
        return _upload(order, source, target, meter or Meter())
    if source.in_object_store:
        return _download(order, source, target, meter or Meter(), cache)
    if order.unpack:
        return _unpack_file(order, source, target, meter)
    return move(order.source, order.target, meter, order.patterns.match if order.patterns != Patterns() else None)


def _download(order: Transfer, source: Address, target: Address, meter: Meter, cache: Cache | None) -> str:
    for _ in range(_TRIES - 1):
        with contextlib.suppress(RewrittenError):
            return _download_once(order, source, target, meter, cache)
    return _download_once(order, source, target, meter, cache)


def _download_once(order: Transfer, source: Address, target: Address, meter: Meter, cache: Cache | None) -> str:
    local = Path(target.local_path())
    folder = Folder.open(source, order.credentials, patience_seconds=order.patience_seconds)
    found = look(folder, order.patterns)
    as_name = found.is_one_object and not (local.is_dir() or target.is_folder or order.unpack)
    known = local.parent if as_name and local.name == source.last_part else local
    draft = (local if local.is_dir() else local.parent) / draft_name(order.source, order.target)
    try:
        found = download(found, draft, known=known, meter=meter, cache=cache)
        found.check_is_whole()
        meter.digest = found.digest()
        files = draft / "files"
        if order.unpack:
            files = _unpacked(files, draft)
        elif as_name:
            files = files / source.last_part
        if files.exists():
            install(files, local)
    except OSError as error:
        # A draft is kept for the next try, but not on a full disk, where it is in everybody's way.
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _discard(draft)
        name_target(error, draft, local)
        raise
    except PermanentError:
        _discard(draft)
        raise
    _discard(draft)
    meter.finish()
    return ""


def _upload(order: Transfer, source: Address, target: Address, meter: Meter) -> str:
    if source.scheme != "file":
        raise PermanentError(f"{source.text}: only local files can be stored in {target.scheme}://")
    path = Path(source.local_path())
    if path.is_dir():
        folder = Folder.open(target, order.credentials, patience_seconds=order.patience_seconds)
        note = upload_folder(path, folder, writer=order.writer, patterns=order.patterns, meter=meter)
    else:
        named = target.below(path.name) if target.is_folder or not target.path else target
        folder = Folder.open(named, order.credentials, patience_seconds=order.patience_seconds)
        upload_file(path, folder, meter)
        note = ""
    meter.finish()
    return note


def _unpack_file(order: Transfer, source: Address, target: Address, meter: Meter | None) -> str:
    local = Path(target.local_path())
    draft = (local if local.is_dir() else local.parent) / draft_name(order.source, order.target)
    try:
        _discard(draft)
        (draft / "files").mkdir(parents=True)
        note = move(source.text, f"{draft}/files/", meter)
        install(_unpacked(draft / "files", draft), local)
        return note
    finally:
        _discard(draft)


def _unpacked(files: Path, draft: Path) -> Path:
    """Unpack every archive that was fetched into one directory."""
    content = draft / "unpacked"
    _discard(content)
    content.mkdir()
    for archive in sorted(path for path in files.rglob("*") if path.is_file()):
        unpack_archive(archive, content, Limits(shutil.disk_usage(draft).free, _MOST_UNPACKED_FILES, of_disk=True))
    return content


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):
        remove(path)
