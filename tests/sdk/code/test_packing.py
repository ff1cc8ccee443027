"""Packing code."""

import errno
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest

from gangline.errors import InvalidInputError
from gangline.model import CodeLimits
from gangline.sdk.code.packing import pack

LIMITS = CodeLimits(packed_bytes=10 * 2**20)


def names_in(directory: Path) -> list[str]:
    with pack(directory, limits=LIMITS) as archive, tarfile.open(fileobj=archive.file) as content:
        return content.getnames()


def digest_of(directory: Path) -> str:
    with pack(directory, limits=LIMITS) as archive:
        return archive.digest


def make_tree(root: Path, *files: str) -> Path:
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {file}\n")
    return root


def test_the_same_content_has_the_same_digest_whatever_its_times_and_order(tmp_path: Path) -> None:
    first = make_tree(tmp_path / "a", "train.py", "lib/model.py", "lib/data.py")
    second = make_tree(tmp_path / "b", "lib/data.py", "lib/model.py", "train.py")
    os.utime(second / "train.py", (1, 1))
    assert digest_of(first) == digest_of(second)
    (second / "train.py").write_text("changed\n")
    assert digest_of(first) != digest_of(second)


def test_nothing_of_the_machine_is_packed(tmp_path: Path) -> None:
    make_tree(tmp_path, "train.py")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o700)
    (tmp_path / "link").symlink_to("train.py")
    with pack(tmp_path, limits=LIMITS) as archive, tarfile.open(fileobj=archive.file) as content:
        entries = {entry.name: entry for entry in content}
    assert {entry.mtime for entry in entries.values()} == {datetime(2000, 1, 1, tzinfo=UTC).timestamp()}
    assert {(entry.uid, entry.uname) for entry in entries.values()} == {(0, "")}
    assert (entries["train.py"].mode, entries["run.sh"].mode) == (0o644, 0o755)
    assert entries["link"].linkname == "train.py"


def test_version_control_caches_and_ignored_files_stay_at_home(tmp_path: Path) -> None:
    make_tree(
        tmp_path, "train.py", ".git/HEAD", "lib/__pycache__/x.pyc", ".venv/bin/python", "data/big.bin", "data/small.txt"
    )
    (tmp_path / ".ganglineignore").write_text("*.bin\n!.git/\n")
    assert names_in(tmp_path) == ["data", "lib", ".ganglineignore", "train.py", "data/small.txt"]


def test_a_directory_that_is_a_link_is_packed_as_a_link(tmp_path: Path) -> None:
    make_tree(tmp_path, "code/train.py", "elsewhere/secret")
    (tmp_path / "code" / "data").symlink_to(tmp_path / "elsewhere")
    assert names_in(tmp_path / "code") == ["data", "train.py"]


def test_a_work_trees_git_file_and_a_linked_environment_stay_at_home(tmp_path: Path) -> None:
    make_tree(tmp_path, "train.py", ".git")
    (tmp_path / ".venv").symlink_to("/opt/environment")
    assert names_in(tmp_path) == ["train.py"]


class HastyTarFile(tarfile.TarFile):
    """Calls ``meanwhile`` before each entry is added, with the entry's name."""

    meanwhile = staticmethod(lambda name: None)

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: IO[bytes] | None = None) -> None:
        type(self).meanwhile(tarinfo.name)
        super().addfile(tarinfo, fileobj)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> type[HastyTarFile]:
    monkeypatch.setattr(tarfile, "open", HastyTarFile.open)
    return HastyTarFile


def test_a_file_that_disappears_meanwhile_is_left_out(
    tmp_path: Path, hasty: type[HastyTarFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path, "a.py", "b.swp", "c.py")
    monkeypatch.setattr(hasty, "meanwhile", lambda name: (tmp_path / "b.swp").unlink(missing_ok=True))
    assert names_in(tmp_path) == ["a.py", "c.py"]


def test_a_file_that_shrinks_meanwhile_is_named(
    tmp_path: Path, hasty: type[HastyTarFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path, "a.py")
    monkeypatch.setattr(hasty, "meanwhile", lambda name: (tmp_path / name).write_text(""))
    with pytest.raises(InvalidInputError, match=r"a\.py': it changed while it was packed"):
        names_in(tmp_path)


def test_a_directory_that_cannot_be_read_is_named_rather_than_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path, "secret/a.py")
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("secret"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InvalidInputError, match=r"secret': Permission denied.*\.ganglineignore"):
        names_in(tmp_path)


def test_sockets_and_pipes_are_left_out(tmp_path: Path) -> None:
    make_tree(tmp_path, "train.py")
    os.mkfifo(tmp_path / "pipe")
    assert names_in(tmp_path) == ["train.py"]


def test_too_much_is_refused_and_the_biggest_files_are_named(tmp_path: Path) -> None:
    make_tree(tmp_path, "train.py")
    (tmp_path / "weights.bin").write_bytes(os.urandom(300_000))
    with (
        pytest.raises(InvalidInputError, match=r"weights\.bin \(0\.3 MiB\).*\.ganglineignore"),
        pack(tmp_path, limits=CodeLimits(packed_bytes=100_000)),
    ):
        pass


def test_few_bytes_that_would_become_many_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(2**40)
    with (
        pytest.raises(InvalidInputError, match=r"zeros \(1048576\.0 MiB\).*300 MiB \(setting code_unpacked_mib\)"),
        pack(tmp_path, limits=LIMITS),
    ):
        pass


def test_too_many_files_are_refused_and_where_they_are_is_named(tmp_path: Path) -> None:
    make_tree(tmp_path, "train.py", *(f"samples/{number}" for number in range(5)))
    with (
        pytest.raises(InvalidInputError, match=r"has 7 files; .* samples \(6\).*at most 6 \(setting code_files\)"),
        pack(tmp_path, limits=CodeLimits(files=6)),
    ):
        pass


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is not a directory"), pack(tmp_path / "missing", limits=LIMITS):
        pass


def test_what_git_ignores_stays_at_home_unless_our_own_file_takes_it_back(tmp_path: Path) -> None:
    make_tree(
        tmp_path, ".git/HEAD", "work/train.py", "work/data/big.bin", "work/data/keep.bin", "work/lib/a.log", "b.log"
    )
    (tmp_path / ".gitignore").write_text("*.log\n/work/data/\n")
    (tmp_path / "work" / "lib" / ".gitignore").write_text("!a.log\n")
    assert names_in(tmp_path / "work") == ["lib", "train.py", "lib/.gitignore", "lib/a.log"]
    (tmp_path / "work" / ".ganglineignore").write_text("!data/\nbig.bin\nlib/\n")
    assert names_in(tmp_path / "work") == ["data", ".ganglineignore", "train.py", "data/keep.bin"]


def test_the_size_of_much_code_is_told_before_it_is_packed(tmp_path: Path) -> None:
    make_tree(tmp_path, "train.py", "weights/a.bin")
    said: list[str] = []
    with pack(tmp_path, limits=LIMITS, say=said.append):
        assert said == []
    (tmp_path / "weights" / "a.bin").write_bytes(b"\0" * 3 * 2**20)
    with pack(tmp_path, limits=LIMITS, say=said.append):
        assert "3.0 MiB" in said[0]
        assert "most of it in weights/ (3.0 MiB)" in said[0]
