"""Archives that nobody vouches for. Nothing here may lean on what newer versions of tarfile check by themselves."""

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gangline.data.unpacking import Limits, PermanentError, members, unpack

Fill = Callable[[tarfile.TarFile], None]


@pytest.fixture(autouse=True)
def tarfile_of_python_3_11_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.4 brought filters to tarfile; before it nothing of them is there."""

    def missing(*args: object, **options: object) -> None:
        raise AssertionError("tarfile's own extraction must not be used")

    for name in ("extract", "extractall"):
        monkeypatch.setattr(tarfile.TarFile, name, missing)
    for name in ("data_filter", "tar_filter", "fully_trusted_filter", "FilterError"):
        monkeypatch.delattr(tarfile, name, raising=False)


def packed(*fills: Fill) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for fill in fills:
            fill(archive)
    buffer.seek(0)
    return buffer


def file(name: str, text: str = "evil", mode: int = 0o644, mtime: float = 0) -> Fill:
    def fill(archive: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = len(text), mode, mtime
        archive.addfile(member, io.BytesIO(text.encode()))

    return fill


def special(name: str, kind: bytes, link: str = "") -> Fill:
    def fill(archive: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.mode = kind, link, 0o777
        archive.addfile(member)

    return fill


def symlink(name: str, to: str) -> Fill:
    return special(name, tarfile.SYMTYPE, to)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/victim").write_text("good")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize(
    "fills",
    [
        [file("../outside/victim")],
        [file("a/../../outside/victim")],
        [symlink("out", "../outside"), file("out/victim")],
        [symlink("a", "."), symlink("a/out", "../outside"), file("a/out/victim")],
        [
            symlink("deep", "x/y"),
            special("x/y", tarfile.DIRTYPE),
            symlink("x/y/up", "../.."),
            file("deep/up/../victim"),
        ],
        [symlink("out", "../outside"), special("out/new", tarfile.DIRTYPE)],
        [symlink("out", "../outside"), symlink("out/new", "x")],
        [special("hard", tarfile.LNKTYPE, "../outside/victim"), file("hard")],
        [symlink("out", "../outside"), special("hard", tarfile.LNKTYPE, "out/victim"), file("hard")],
    ],
    ids=[
        "path out",
        "path in and out",
        "through a link",
        "through two links",
        "dots after links",
        "directory through a link",
        "link through a link",
        "hard link out",
        "hard link through a link",
    ],
)
def test_nothing_outside_is_written(root: Path, fills: list[Fill]) -> None:
    with pytest.raises(PermanentError, match="outside"):
        unpack(packed(*fills), root)
    assert {path.name: path.read_text() for path in (root.parent / "outside").iterdir()} == {"victim": "good"}
    assert sorted(path.name for path in root.parent.iterdir()) == ["outside", "root"]


def test_a_hard_link_to_what_is_not_there_is_refused(root: Path) -> None:
    with pytest.raises(PermanentError, match="does not hold"):
        unpack(packed(special("shadow", tarfile.LNKTYPE, "etc/shadow")), root)


@pytest.mark.parametrize(
    "fills",
    [
        [symlink("link", "../outside/victim"), file("link")],
        [symlink("link", "{victim}"), file("link")],
        [symlink("link", "../outside"), special("link", tarfile.DIRTYPE), file("link/victim")],
        [symlink("link", "../outside/victim"), special("hard", tarfile.LNKTYPE, "link"), file("hard")],
        [file("/outside/victim")],
    ],
    ids=["file", "file by its whole path", "directory", "hard link", "absolute path"],
)
def test_what_follows_a_link_of_its_name_takes_its_place(root: Path, fills: list[Fill]) -> None:
    unpack(packed(*fills), root)
    assert (root.parent / "outside/victim").read_text() == "good"


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(root: Path, kind: bytes) -> None:
    with pytest.raises(PermanentError, match="odd, which is neither a file, nor a directory, nor a link"):
        unpack(packed(special("odd", kind)), root)


def test_a_name_that_no_file_can_have_is_refused(root: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        member = tarfile.TarInfo("odd")
        member.pax_headers = {"path": "a\0b"}
        archive.addfile(member)

    with pytest.raises(PermanentError, match="cannot be unpacked"):
        unpack(packed(fill), root)


def test_files_keep_their_times_and_what_their_owner_may_do(root: Path) -> None:
    unpack(packed(file("bin/run", mode=0o4777, mtime=1.5e9), file("read", mode=0o044), symlink("link", "/data")), root)
    status = (root / "bin/run").stat()
    assert (status.st_mode & 0o7777, status.st_mtime) == (0o755, 1.5e9)
    assert (root / "read").stat().st_mode & 0o7777 == 0o644
    assert (root / "link").readlink() == Path("/data")


def sparse(name: str, size: int) -> Fill:
    """A file of zeros that takes no room in the archive."""

    def fill(archive: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.pax_headers = {
            "GNU.sparse.major": "0",
            "GNU.sparse.minor": "1",
            "GNU.sparse.map": "0,0",
            "GNU.sparse.size": str(size),
        }
        archive.addfile(member)

    return fill


@pytest.mark.parametrize(
    ("fills", "want"),
    [
        ([file("zeros", "\0" * 2**21)], "more than 1 MiB when it is unpacked"),
        ([file(f"zeros-{number}", "\0" * 2**18) for number in range(5)], "more than 1 MiB when it is unpacked"),
        ([sparse("zeros", 2**40)], "more than 1 MiB when it is unpacked"),
        ([file(f"{number}", "") for number in range(11)], "more than 10 files"),
        ([file("x" * 2**21, "")], "more than 1 MiB"),
    ],
    ids=["one file", "several files", "holes", "many files", "names"],
)
def test_what_holds_too_much_is_refused_before_it_is_written(root: Path, fills: list[Fill], want: str) -> None:
    with pytest.raises(PermanentError, match=want):
        unpack(packed(*fills), root, Limits(2**20, 10))
    assert sum(path.stat().st_size for path in root.rglob("*")) <= 2**20


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", gzip.compress(os.urandom(5000)), packed(file("a", "a" * 5000)).getvalue()[:-40]],
    ids=["empty", "text", "no tar", "cut short"],
)
def test_a_damaged_archive_is_said_to_be_damaged(content: bytes) -> None:
    with pytest.raises(PermanentError, match="the archive is damaged"):
        list(members(io.BytesIO(content), Limits()))
