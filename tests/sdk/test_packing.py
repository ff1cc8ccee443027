"""Packing code."""

import os
import tarfile
from pathlib import Path

import pytest

from gangline.errors import InvalidInputError
from gangline.sdk.packing import pack

LIMIT = 10 * 2**20


def names_in(directory: Path) -> list[str]:
    with pack(directory, limit_bytes=LIMIT) as archive, tarfile.open(fileobj=archive.file) as content:
        return content.getnames()


def digest_of(directory: Path) -> str:
    with pack(directory, limit_bytes=LIMIT) as archive:
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
    with pack(tmp_path, limit_bytes=LIMIT) as archive, tarfile.open(fileobj=archive.file) as content:
        entries = {entry.name: entry for entry in content}
    assert {entry.mtime for entry in entries.values()} == {0}
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


def test_sockets_and_pipes_are_left_out(tmp_path: Path) -> None:
    make_tree(tmp_path, "train.py")
    os.mkfifo(tmp_path / "pipe")
    assert names_in(tmp_path) == ["train.py"]


def test_too_much_is_refused_and_the_biggest_files_are_named(tmp_path: Path) -> None:
    make_tree(tmp_path, "train.py")
    (tmp_path / "weights.bin").write_bytes(os.urandom(300_000))
    with (
        pytest.raises(InvalidInputError, match=r"weights\.bin \(0\.3 MiB\).*\.ganglineignore"),
        pack(tmp_path, limit_bytes=100_000),
    ):
        pass


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is no directory"), pack(tmp_path / "missing", limit_bytes=LIMIT):
        pass
