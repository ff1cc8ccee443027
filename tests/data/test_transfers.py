"""Transfers to and from real object stores: what arrives, what is left alone, what others see meanwhile."""

import io
import os
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.data.addresses import parse
from gangline.data.cache import Cache
from gangline.data.manifests import CLAIM, MANIFEST, Manifest, Patterns
from gangline.data.progress import Meter, Progress
from gangline.data.stores import Folder
from gangline.data.transfers import Transfer, transfer
from gangline.data.unpacking import PermanentError
from tests.data.servers import Server, give_to_gs
from tests.data.trees import MIB, contents_of, make_tree, noise

SIZES = {"empty": 0, "a.txt": 5, "deep/er/b.bin": 3 * MIB, "deep/large.bin": 21 * MIB + 7, "odd name é&+%20.txt": 9}


def folder_at(server: Server, path: str) -> Folder:
    return Folder.open(parse(f"{server.address}/{path}"), server.credentials, patience_seconds=5)


def up(server: Server, source: Path, path: str, **fields: object) -> str:
    order = Transfer(source=str(source), target=f"{server.address}/{path}", credentials=server.credentials)
    return transfer(replace(order, **fields))  # type: ignore[arg-type]


def down(server: Server, path: str, target: Path | str, cache: Cache | None = None, **fields: object) -> list[Progress]:
    told: list[Progress] = []
    order = Transfer(source=f"{server.address}/{path}", target=str(target), credentials=server.credentials)
    transfer(replace(order, **fields), meter=Meter(told.append), cache=cache)  # type: ignore[arg-type]
    return told


def test_a_directory_goes_up_and_comes_down_the_same(any_store: Server, tmp_path: Path) -> None:
    contents = make_tree(tmp_path / "from", SIZES)
    assert up(any_store, tmp_path / "from", "there-and-back") == ""
    told = down(any_store, "there-and-back", tmp_path / "to")
    assert contents_of(tmp_path / "to") == contents
    assert (told[-1].moved_bytes, told[-1].moved_files) == (sum(SIZES.values()), len(SIZES))
    assert told[-1].seconds_left == 0.0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", [b"new\nline", b"not text \xff"], ids=["a control character", "bytes"])
def test_a_name_that_no_store_can_hold_is_refused_before_anything_is_written(
    s3: Server, tmp_path: Path, name: bytes
) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "fine").write_text("x")
    (tmp_path / "from" / os.fsdecode(name)).write_text("x")
    with pytest.raises(PermanentError, match="an object store cannot hold the name"):
        up(s3, tmp_path / "from", f"unnameable-{len(name)}")
    assert folder_at(s3, f"unnameable-{len(name)}").entries() == []
    with pytest.raises(PermanentError, match="cannot be a name in an object store"):
        folder_at(s3, "unnameable").write(os.fsdecode(b"new\nline"), b"x")


def test_a_folder_of_google_comes_down_the_same(gs: Server, tmp_path: Path) -> None:
    contents = {name: noise(size, name) for name, size in SIZES.items()}
    for name, content in contents.items():
        give_to_gs(gs, f"set/{name}", content)
    down(gs, "set", tmp_path / "to")
    down(gs, "set/deep/large.bin", tmp_path / "one.bin")
    assert contents_of(tmp_path / "to") == contents
    assert (tmp_path / "one.bin").read_bytes() == contents["deep/large.bin"]
    with pytest.raises(PermanentError, match="there is nothing there"):
        down(gs, "nothing", tmp_path / "nowhere")


def test_a_folder_is_whole_once_its_manifest_is_there(any_store: Server, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", SIZES)
    up(any_store, tmp_path / "from", "whole")
    names = {entry.name for entry in folder_at(any_store, "whole").entries()}
    assert names == {*SIZES, MANIFEST}


def test_one_object_takes_the_name_of_its_target(any_store: Server, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(noise(9 * MIB))
    up(any_store, tmp_path / "model.bin", "single/model.bin")
    down(any_store, "single/model.bin", tmp_path / "other" / "name.bin")
    down(any_store, "single/model.bin", f"{tmp_path}/folder/")
    want = noise(9 * MIB)
    assert contents_of(tmp_path / "other") == {"name.bin": want}
    assert contents_of(tmp_path / "folder") == {"model.bin": want}


def test_a_file_that_goes_into_a_folder_keeps_its_name(s3: Server, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    up(s3, tmp_path / "a.txt", "into/")
    assert [entry.name for entry in folder_at(s3, "into").entries()] == ["a.txt"]


def test_only_what_differs_is_fetched_again(s3: Server, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", SIZES)
    up(s3, tmp_path / "from", "differs")
    down(s3, "differs", tmp_path / "to")
    (tmp_path / "to" / "a.txt").write_text("something else")
    (tmp_path / "to" / "mine").write_text("mine")
    told = down(s3, "differs", tmp_path / "to")
    assert (told[-1].moved_files, told[-1].moved_bytes) == (1, 5)
    assert contents_of(tmp_path / "to") == {**contents_of(tmp_path / "from"), "mine": b"mine"}


def test_only_what_differs_is_stored_again(s3: Server, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", SIZES)
    up(s3, tmp_path / "from", "stored-again")
    before = {entry.name: entry for entry in folder_at(s3, "stored-again").entries()}
    (tmp_path / "from" / "a.txt").write_text("other")
    os.utime(tmp_path / "from" / "deep" / "large.bin")
    (s3.folder / "bucket" / "stored-again" / "deep" / "large.bin").chmod(0o444)
    stamp = (s3.folder / "bucket" / "stored-again" / "deep" / "large.bin").stat().st_ino
    up(s3, tmp_path / "from", "stored-again")
    after = {entry.name: entry for entry in folder_at(s3, "stored-again").entries()}
    assert {name for name in SIZES if before[name].e_tag != after[name].e_tag} == {"a.txt"}
    assert (s3.folder / "bucket" / "stored-again" / "deep" / "large.bin").stat().st_ino == stamp


def test_what_an_earlier_result_left_stays_in_the_manifest(s3: Server, tmp_path: Path) -> None:
    make_tree(tmp_path / "one", {"a": 1, "b": 2})
    make_tree(tmp_path / "two", {"b": 3})
    up(s3, tmp_path / "one", "merged")
    up(s3, tmp_path / "two", "merged")
    manifest = Manifest.decode(folder_at(s3, "merged").read_small(MANIFEST)[0], "there")
    assert {name: facts.size for name, facts in manifest.files.items()} == {"a": 1, "b": 3}


def test_patterns_choose_what_travels_both_ways(s3: Server, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"a.txt": 1, "b.bin": 2, "deep/c.txt": 3, "deep/d.tmp": 4})
    up(s3, tmp_path / "from", "chosen", patterns=Patterns(exclude=("*.tmp",)))
    down(s3, "chosen", tmp_path / "to", patterns=Patterns(include=("*.txt",), exclude=("deep/*",)))
    assert {entry.name for entry in folder_at(s3, "chosen").entries()} == {"a.txt", "b.bin", "deep/c.txt", MANIFEST}
    assert set(contents_of(tmp_path / "to")) == {"a.txt"}


def test_a_folder_that_is_not_written_to_its_end_is_not_read(s3: Server, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", SIZES)
    up(s3, tmp_path / "from", "torn")
    folder_at(s3, "torn").write(CLAIM, Manifest(writer="job other").encode())
    with pytest.raises(OSError, match="not whole"):
        down(s3, "torn", tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_folder_from_which_a_file_was_removed_is_not_read(s3: Server, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", SIZES)
    up(s3, tmp_path / "from", "removed")
    folder_at(s3, "removed").delete(["a.txt"])
    with pytest.raises(PermanentError, match=r"a\.txt was removed"):
        down(s3, "removed", tmp_path / "to")


def test_a_folder_of_others_needs_no_manifest(s3: Server, tmp_path: Path) -> None:
    folder = folder_at(s3, "foreign")
    folder.write("a/b.txt", b"hello")
    down(s3, "foreign", tmp_path / "to")
    assert contents_of(tmp_path / "to") == {"a/b.txt": b"hello"}


@pytest.mark.parametrize("name", ["large.bin", "small.bin"])
def test_content_that_is_not_what_was_stored_is_refused(s3: Server, tmp_path: Path, name: str) -> None:
    make_tree(tmp_path / "from", {"large.bin": 9 * MIB, "small.bin": 100})
    up(s3, tmp_path / "from", f"rotten-{name}")
    with (s3.folder / "bucket" / f"rotten-{name}" / name).open("r+b") as file:
        file.write(b"rot")
    with pytest.raises(OSError, match=f"{name} does not match its checksum"):
        down(s3, f"rotten-{name}", tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_an_object_of_others_is_checked_by_its_tag(s3: Server, tmp_path: Path) -> None:
    folder_at(s3, "tagged").write("x", b"hello")
    (s3.folder / "bucket" / "tagged" / "x").write_bytes(b"jello")
    with pytest.raises(OSError, match="does not match its checksum"):
        down(s3, "tagged", tmp_path / "to")


def test_a_key_that_is_no_path_is_refused(s3: Server) -> None:
    from gangline.data.downloads import _inside

    for name in ("../x", "a/../../x", "/etc/passwd", "a//b", "a/./b"):
        with pytest.raises(PermanentError, match="cannot be the path of a file"):
            _inside(Path("/folder"), name)


def test_two_writers_at_one_address_are_told_of_each_other(any_store: Server, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"a": 1})
    folder = folder_at(any_store, "contested")
    folder.write(CLAIM, Manifest(writer="job one").encode())
    with pytest.raises(OSError, match="being written by job one"):
        up(any_store, tmp_path / "from", "contested", writer="job two")
    assert {entry.name for entry in folder.entries()} == {CLAIM}
    up(any_store, tmp_path / "from", "contested", writer="job one")
    assert {entry.name for entry in folder.entries()} == {"a", MANIFEST}


def test_a_claim_that_nobody_renews_is_taken_over(s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tree(tmp_path / "from", {"a": 1})
    folder = folder_at(s3, "abandoned")
    folder.write(CLAIM, Manifest(writer="job dead").encode())
    monkeypatch.setattr("gangline.data.commits._ABANDONED_SECONDS", 0.0)
    up(s3, tmp_path / "from", "abandoned", writer="job living")
    assert {entry.name for entry in folder.entries()} == {"a", MANIFEST}


def test_a_claim_is_renewed_while_a_single_file_is_stored(
    s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gangline.data import commits

    renewed, renew = threading.Event(), getattr(commits, "_renew")  # noqa: B009

    def noticed(*given: object) -> object:
        renewed.set()
        return renew(*given)

    def read_slowly(_: Path) -> Iterator[bytes]:
        assert renewed.wait(60)
        yield b"1"

    monkeypatch.setattr(commits, "_RENEW_SECONDS", 0.0)
    monkeypatch.setattr(commits, "_HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(commits, "_renew", noticed)
    monkeypatch.setattr("gangline.data.uploads._chunks", read_slowly)
    make_tree(tmp_path / "from", {"x": 1})
    up(s3, tmp_path / "from", "slowly", writer="job one")
    assert {entry.name for entry in folder_at(s3, "slowly").entries()} == {"x", MANIFEST}


def test_nothing_is_committed_over_what_somebody_else_overwrote(s3: Server, tmp_path: Path) -> None:
    from gangline.data.commits import BusyError, Commit
    from gangline.data.manifests import FileFacts

    folder = folder_at(s3, "overwritten")
    commit = Commit.begin(folder, "job one")
    commit.stored("a", FileFacts(1, folder.write("a", b"1"), "digest", "check"))
    folder.write("a", b"2")
    with pytest.raises(BusyError, match="a was overwritten by somebody else"):
        commit.finish({entry.name: entry.e_tag for entry in folder.entries()})
    assert folder.head(MANIFEST) is None


def test_a_refused_key_is_a_clear_reason_without_the_key(s3: Server, tmp_path: Path) -> None:
    wrong = replace(s3.credentials, secret="not the secret")
    make_tree(tmp_path / "from", {"a": 1})
    for move in (
        lambda: down(s3, "x", tmp_path / "to", credentials=wrong),
        lambda: up(s3, tmp_path / "from", "x", credentials=wrong),
    ):
        with pytest.raises(PermanentError, match="the store refuses the key") as refusal:
            move()
        assert "not the secret" not in str(refusal.value)


@pytest.mark.parametrize("path", ["nothing-here", "nothing-here/"])
def test_nothing_at_an_address_is_a_clear_reason(any_store: Server, tmp_path: Path, path: str) -> None:
    with pytest.raises(PermanentError, match="there is nothing there"):
        down(any_store, path, tmp_path / "to")


def test_links_are_followed_and_pipes_left_out(s3: Server, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"step-40/model": 5})
    (tmp_path / "from" / "best").symlink_to("step-40")
    os.mkfifo(tmp_path / "from" / "pipe")
    assert "pipe (a pipe)" in up(s3, tmp_path / "from", "linked")
    names = {entry.name for entry in folder_at(s3, "linked").entries()}
    assert names == {"step-40/model", "best/model", MANIFEST}


def packed(path: Path, members: list[tarfile.TarInfo], mode: str = "w:gz") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, size: int = 0, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    return member(name, type=kind, linkname=target)


@pytest.mark.parametrize("mode", ["w:gz", "w"])
@pytest.mark.parametrize("remote", [True, False])
def test_an_archive_is_unpacked_on_request(s3: Server, tmp_path: Path, mode: str, remote: bool) -> None:
    members = [member("set/a", 3), link("set/b", "a"), link("set/deep/c", "../a")]
    archive = packed(tmp_path / "here" / "x.tar", members, mode)
    if remote:
        up(s3, archive, f"archives/{mode}.tar")
        down(s3, f"archives/{mode}.tar", tmp_path / "to", unpack=True)
    else:
        transfer(Transfer(source=str(archive), target=str(tmp_path / "to"), unpack=True))
    assert contents_of(tmp_path / "to") == {"set/a": b"xxx", "set/b": b"xxx", "set/deep/c": b"xxx"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "to"]


@pytest.mark.parametrize(
    "members",
    [
        [member("../x", 1)],
        [link("a", "/etc/passwd")],
        [link("a", "../x")],
        [link("d", "."), link("d/a", "../x")],
        [link("a", "d/../../x")],
        [link("d", "."), link("a", "d/../x")],
        [link("deep/a", "../x"), link("b", "deep/a", tarfile.LNKTYPE)],
    ],
    ids=[
        "name",
        "absolute link",
        "link",
        "link below a link",
        "later '..'",
        "'..' after a link",
        "moved by a hard link",
    ],
)
def test_an_archive_that_leads_out_of_its_directory_is_refused(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    archive = packed(tmp_path / "here" / "x.tar.gz", members)
    with pytest.raises(PermanentError, match="the archive holds"):
        transfer(Transfer(source=str(archive), target=str(tmp_path / "to"), unpack=True))
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
