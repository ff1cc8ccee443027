"""Files as one stream: what arrives is what was sent, and never half of it."""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.data.tars import Chunks, packed, receive_into, tar_stream, write_tar
from gangline.data.trees import Entry
from gangline.data.unpacking import PermanentError


def stream_of(source: Path) -> bytes:
    out = io.BytesIO()
    write_tar(packed(source), out)
    return out.getvalue()


def chunks(data: bytes, size: int) -> Chunks:
    return Chunks(iter([data[start : start + size] for start in range(0, len(data), size)]))


@pytest.mark.parametrize("size", [1, 511, 10_240, 1 << 20])
def test_a_directory_arrives_with_links_modes_and_empty_folders(tmp_path: Path, size: int) -> None:
    source = tmp_path / "source"
    (source / "deep" / "empty").mkdir(parents=True)
    (source / "deep" / "run").write_text("x" * 3000)
    (source / "deep" / "run").chmod(0o755)
    (source / "link").symlink_to("deep/run")
    receive_into(chunks(stream_of(source), size), tmp_path / "target", into=False)
    assert (tmp_path / "target" / "deep" / "empty").is_dir()
    assert os.access(tmp_path / "target" / "deep" / "run", os.X_OK)
    assert (tmp_path / "target" / "link").readlink() == Path("deep/run")


def test_what_the_target_has_beside_it_stays(tmp_path: Path) -> None:
    for name, text in (("source", "new"), ("target", "old")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same").write_text(text)
        (tmp_path / name / f"only-{name}").touch()
    receive_into(chunks(stream_of(tmp_path / "source"), 999), tmp_path / "target", into=False)
    assert {path.name for path in (tmp_path / "target").iterdir()} == {"same", "only-source", "only-target"}
    assert (tmp_path / "target" / "same").read_text() == "new"


def test_a_stream_that_is_cut_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(b"x" * 100_000)
    cut = stream_of(tmp_path / "source")[:50_000]
    with pytest.raises(PermanentError, match="damaged"):
        receive_into(chunks(cut, 4096), tmp_path / "target", into=False)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize(
    ("name", "link"), [("directory/../../escaped", None), ("directory/link", "../../.."), ("/escaped", None)]
)
def test_a_stream_cannot_leave_its_target(tmp_path: Path, name: str, link: str | None) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w|") as archive:
        header = tarfile.TarInfo(name)
        if link is not None:
            header.type, header.linkname = tarfile.SYMTYPE, link
        archive.addfile(header)
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    with pytest.raises(PermanentError):
        receive_into(chunks(out.getvalue(), 4096), place / "target", into=False)
    assert not list(tmp_path.rglob("escaped*"))
    assert list(place.iterdir()) == []


def test_a_stream_that_fails_to_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()

    def broken() -> Iterator[Entry]:
        yield Entry("there", tmp_path, is_directory=True)
        raise PermanentError("broken")

    def read() -> None:
        with tar_stream(packed(tmp_path / "source")._replace(entries=broken())) as stream:
            while stream.read(4096):
                pass

    with pytest.raises(PermanentError, match="broken"):
        read()
