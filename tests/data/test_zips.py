"""Zips of strangers become the tar of the same files, and nothing else."""

import io
import tarfile
import zipfile

import pytest

from gangline.data.unpacking import Limits, PermanentError
from gangline.data.zips import tar_to_zip, zip_to_tar


def zipped(files: dict[str, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    out.seek(0)
    return out


def tarred(files: dict[str, bytes], limits: Limits = Limits()) -> io.BytesIO:  # noqa: B008  # a tuple never changes
    out = io.BytesIO()
    zip_to_tar(zipped(files), out, limits)
    out.seek(0)
    return out


def test_the_same_files_give_the_same_bytes() -> None:
    files = {"b": b"2", "a/x": b"1"}
    assert tarred(files).getvalue() == tarred(dict(reversed(files.items()))).getvalue()
    with tarfile.open(fileobj=tarred(files), mode="r:gz") as archive:
        assert archive.getnames() == ["a/x", "b"]


@pytest.mark.parametrize("limits", [Limits(999, 10), Limits(10_000, 1)], ids=["size", "files"])
def test_more_than_is_allowed_is_refused(limits: Limits) -> None:
    files = {"a": b"x" * 500, "b": b"y" * 500}
    with pytest.raises(PermanentError, match="more than"):
        tarred(files, limits)
    assert tarred(files, Limits(1000, 2))


def test_what_is_unpacked_counts_and_not_what_the_zip_says_of_itself() -> None:
    bomb = bytearray(zipped({"a": b"\0" * 10_000_000}).getvalue())
    at = bomb.rindex(b"PK\x01\x02") + 24  # the size in the directory at its end
    bomb[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(PermanentError):
        zip_to_tar(io.BytesIO(bytes(bomb)), io.BytesIO(), Limits(1000, 10))


def test_there_and_back() -> None:
    files = {"a/b.py": b"print()", "c": b""}
    out = io.BytesIO()
    tar_to_zip(tarred(files), out, mode="r|gz", named=str)
    with zipfile.ZipFile(out) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == files
