"""Copies of directory trees: what stays a link, what is followed, and what is left out.

Used wherever data is moved: by the mover (with which this file travels to a cluster, so it needs the standard library
of an old Python and nothing else), and by whoever packs inputs for a cluster.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .unpacking import PermanentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from io import FileIO

    from .progress import Meter

_LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_BLOCK = 1 << 20
_TRIES = 3
_KERNELS = frozenset({Path("/proc"), Path("/sys")})
"""What the kernel makes up when it is read, much of it without end or unreadable."""
_SHOWN = 5
"""How many of the entries that were left out are named."""


_followed: list[Path] = []
"""Below these, links are followed; everywhere if none is named. Of the whole process, as its working directory is."""


def follow_links_only_below(directories: Iterable[str]) -> None:
    """Leave out, from now on, what links lead to elsewhere: a mover beside a program sees other files than it."""
    _followed[:] = [Path(each).resolve() for each in directories]


class Entry(NamedTuple):
    """What a copy of a tree has under a name: a directory, a link, or a file with the content of ``path``."""

    name: str
    path: Path
    is_directory: bool = False
    link: str | None = None


class Tree:
    """What a copy of a directory has in it, from the top down.

    A link to something in the tree stays a link: a relative one as it is written, an absolute one made relative, so
    that it leads to the copy. What a link leads to outside the tree is copied in its place, as is everything a link
    leads to where there are no links (``keep_links``), as in an object store. Neither files nor directories, broken
    links to places outside, and links to a directory that they lie in are left out, and ``note`` tells of them.
    """

    def __init__(self, root: Path, *, keep_links: bool = True, without: Path | None = None) -> None:
        self._root = root.resolve()
        self._keep_links = keep_links
        self._without = without and without.resolve()
        self._left_out: list[str] = []

    def __iter__(self) -> Iterator[Entry]:
        self._left_out = []
        return self._below(self._root, "", self._root, _lineage(self._root))

    def note(self) -> str:
        """Say what was left out and why; empty if nothing was."""
        return printable(f"not copied from {self._root}: {_some(self._left_out)}") if self._left_out else ""

    def _below(self, directory: Path, prefix: str, root: Path, above: set[tuple[int, int]]) -> Iterator[Entry]:
        for path in sorted(directory.iterdir()):
            name, is_link = prefix + path.name, path.is_symlink()
            link = _link_in_copy(path, root) if is_link and self._keep_links else None
            if link is not None:
                yield Entry(name, path, link=link)
                continue
            try:
                status = path.stat()
            except OSError as error:
                if error.errno not in _LEADS_NOWHERE and not (is_link and error.errno == errno.EACCES):
                    raise
                # Without being a link, it went meanwhile: programs that still run come and go with their files.
                self._left_out += [f"{name} (a broken link)"] * is_link
                continue
            if is_link and not _KERNELS.isdisjoint((path.resolve(), *path.resolve().parents)):
                self._left_out.append(f"{name} (a link to what the kernel makes up)")
            elif is_link and not _is_followed(path):
                self._left_out.append(f"{name} (a link out of the job's directories)")
            elif stat.S_ISREG(status.st_mode):
                yield Entry(name, path)
            elif not stat.S_ISDIR(status.st_mode):
                self._left_out.append(f"{name} ({_kind(status)})")
            elif _identity(status) in above:
                self._left_out.append(f"{name} (a link to a directory that it lies in)")
            elif path != self._without:
                yield Entry(name, path, is_directory=True)
                inner = path.resolve() if is_link else path
                yield from self._below(
                    inner,
                    f"{name}/",
                    inner if is_link else root,
                    above | (_lineage(inner) if is_link else {_identity(status)}),
                )


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def _is_followed(path: Path) -> bool:
    end = path.resolve()
    return not _followed or any(each == end or each in end.parents for each in _followed)


def open_followed(path: Path) -> FileIO:
    """Open a file to read it, wherever a link that was put in its place meanwhile may lead."""
    file = path.open("rb", buffering=0)
    if _followed and not _is_followed(Path(f"/proc/self/fd/{file.fileno()}")):
        file.close()
        raise PermanentError(f"{path} has become a link out of the job's directories")
    return file


def _link_in_copy(path: Path, root: Path) -> str | None:
    """How a link is written in a copy of its tree; None if it leads out of it."""
    text, end = os.readlink(path), os.path.realpath(path)  # noqa: PTH115  # Path.readlink is newer than some images
    if end != str(root) and root not in Path(end).parents:
        return None
    by_name = os.path.normpath(path.relative_to(root).parent / text)
    stays_inside = not by_name.startswith("/") and by_name.split("/")[0] != ".."
    return text if stays_inside else os.path.relpath(end, path.parent)


def copy(source: Path, target: Path, meter: Meter | None = None, wanted: Callable[[str], bool] | None = None) -> str:
    """Copy a file, or a tree by the rules of ``Tree``; returns what was left out and why.

    With ``wanted``, only files whose paths it accepts, and the directories that those lie in.
    """
    if not source.is_dir():
        check_is_file(source)
        if meter is not None:
            meter.expect(source.stat().st_size, 1)
        return "" if _copy_file(source, target, meter) else printable(f"{source} changed while it was read")
    tree = Tree(source, without=target)
    if meter is not None:
        files = (entry for entry in tree if not entry.is_directory and entry.link is None)
        sizes = [_size(entry.path) for entry in files if wanted is None or wanted(entry.name)]
        meter.expect(sum(sizes), len(sizes))
    target.mkdir()
    directories, changed = [(source, target)], []
    for entry in tree:
        place = target / entry.name
        if wanted is not None:
            if entry.is_directory or not wanted(entry.name):
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
        if entry.is_directory:
            place.mkdir()
            directories.append((entry.path, place))
        elif entry.link is not None:
            place.symlink_to(entry.link)
        else:
            with contextlib.suppress(FileNotFoundError):
                if not _copy_file(entry.path, place, meter):
                    changed.append(entry.name)
    for original, place in reversed(directories):
        status = original.stat()
        # Whoever stores the copy must be able to move it, and its owner to remove it.
        place.chmod(stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    torn = f"changed while they were read from {source}: {_some(changed)}" if changed else ""
    return "; ".join(each for each in (tree.note(), printable(torn)) if each)


def _copy_file(source: Path, target: Path, meter: Meter | None) -> bool:
    """Copy a file, again if it changed meanwhile; returns whether it rested at last."""
    rested = False
    for _ in range(_TRIES):
        copied = 0
        with open_followed(source) as original, target.open("wb") as place:
            before = _state(original)
            block = original.read(_BLOCK)
            while block:
                place.write(block)
                copied += len(block)
                if meter is not None:
                    meter.add(len(block))
                block = original.read(_BLOCK)
            rested = _state(original) == before
        if rested:
            break
        if meter is not None:
            meter.add(-copied)
    if meter is not None:
        meter.add(0 if rested else copied, files=1)
    shutil.copystat(source, target)
    return rested


def _state(file: FileIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def content_digest(path: Path) -> str:
    """What tells one content from another: of a file its SHA-256, of a directory that of the list of its files."""
    if not path.is_dir():
        return f"sha256:{_sha256(path)}"
    names = (entry for entry in Tree(path, keep_links=False) if not entry.is_directory)
    return listing_digest({entry.name: _sha256(entry.path) for entry in names})


def listing_digest(files: Mapping[str, str], kind: str = "sha256") -> str:
    """The digest of a directory, by what tells its files: the SHA-256 of each, or another ``kind`` of tag."""
    lines = "".join(f"{files[name]}  {name}\n" for name in sorted(files))
    return f"{kind}:{hashlib.sha256(lines.encode(errors='surrogateescape')).hexdigest()}"


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with open_followed(path) as file:
        block = file.read(_BLOCK)
        while block:
            found.update(block)
            block = file.read(_BLOCK)
    return found.hexdigest()


def printable(text: str) -> str:
    """A text as one line that is safe to show: names of files may hold anything."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def check_is_file(path: Path) -> None:
    """Refuse what is neither a file nor a link to one."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise PermanentError(f"{path} is {_kind(status)}, not a file or a directory")


def _kind(status: os.stat_result) -> str:
    kinds = {stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a pipe"}
    return kinds.get(stat.S_IFMT(status.st_mode), "a device")


def _lineage(directory: Path) -> set[tuple[int, int]]:
    """A directory and all that it lies in."""
    return {_identity(each.stat()) for each in (directory, *directory.parents)}


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
