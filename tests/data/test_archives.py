"""Archives of every kind, and those that must be refused."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gangline.data.archives import unpack_archive
from gangline.data.transfers import Transfer, transfer
from gangline.data.unpacking import Limits, PermanentError
from tests.data.trees import contents_of

FILES = {"a.txt": b"a", "deep/b.bin": b"b" * 3_000_000, "deep/empty": b""}


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in FILES.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return out.getvalue()


def zipped(files: dict[str, bytes], *, mode: int = 0o644) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return out.getvalue()


PACKED: dict[str, Callable[[], bytes]] = {
    "tar": tar,
    "gzip": lambda: gzip.compress(tar()),
    "bzip2": lambda: bz2.compress(tar()),
    "xz": lambda: lzma.compress(tar()),
    "zip": lambda: zipped(FILES),
}


@pytest.mark.parametrize("kind", PACKED)
def test_an_archive_of_any_kind_is_unpacked_into_its_target(tmp_path: Path, kind: str) -> None:
    (tmp_path / "packed").write_bytes(PACKED[kind]())
    transfer(Transfer(source=str(tmp_path / "packed"), target=str(tmp_path / "to"), unpack=True))
    assert contents_of(tmp_path / "to") == FILES


@pytest.mark.parametrize("kind", PACKED)
def test_an_archive_that_ends_early_is_refused_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    packed = PACKED[kind]()
    (tmp_path / "packed").write_bytes(packed[: len(packed) * 2 // 3])
    with pytest.raises(PermanentError, match="the archive is damaged"):
        transfer(Transfer(source=str(tmp_path / "packed"), target=str(tmp_path / "to"), unpack=True))
    assert [path.name for path in tmp_path.iterdir()] == ["packed"]


@pytest.mark.parametrize(
    ("packed", "want"),
    [
        (zipped({"../out": b"x"}), "written outside of its directory"),
        (zipped({"deep/../../out": b"x"}), "written outside of its directory"),
        (zipped({"link": b"/etc/passwd"}, mode=0o120777), "a link"),
        (zipped({"bomb": b"0" * 2_000_000}), "more than there is room for"),
        (zipped({str(number): b"" for number in range(12)}), "more than 10 files"),
    ],
    ids=["above", "above in the middle", "a link", "too large", "too many"],
)
def test_a_zip_archive_that_must_not_be_unpacked_is_refused(tmp_path: Path, packed: bytes, want: str) -> None:
    (tmp_path / "packed").write_bytes(packed)
    (tmp_path / "to").mkdir()
    with pytest.raises(PermanentError, match=want):
        unpack_archive(tmp_path / "packed", tmp_path / "to", Limits(1_000_000, 10))
    assert {path.name for path in tmp_path.iterdir()} == {"packed", "to"}
