"""Bad days of networks, stores and disks: a clear reason, another try where it helps, and nothing half visible."""

import errno
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gangline.data import downloads
from gangline.data.addresses import parse
from gangline.data.downloads import look
from gangline.data.lanes import StoreError
from gangline.data.manifests import CLAIM, MANIFEST, Manifest, Patterns
from gangline.data.moving import tell_failure
from gangline.data.progress import Meter
from gangline.data.stores import Folder
from gangline.data.tars import packed, receive_into, tar_stream
from gangline.data.transfers import Transfer, transfer
from gangline.data.trees import content_digest
from gangline.data.unpacking import PermanentError
from tests.data.proxy import Proxy, proxy_to
from tests.data.servers import Server, free_port, s3_server
from tests.data.trees import MIB, contents_of, make_tree, noise
from tests.disks import fill, small_disk

SIZES = {f"small-{number}": 1000 + number for number in range(40)} | {"large": 30 * MIB}


@pytest.fixture
def proxy(s3: Server) -> Iterator[Proxy]:
    port = urlsplit(s3.credentials.endpoint).port
    assert port is not None
    with proxy_to(port) as proxy:
        yield proxy


def folder_at(server: Server, path: str) -> Folder:
    return Folder.open(parse(f"s3://bucket/{path}"), server.credentials, patience_seconds=5)


def stored(s3: Server, tmp_path: Path, path: str) -> dict[str, bytes]:
    contents = make_tree(tmp_path / "from", SIZES)
    transfer(Transfer(source=str(tmp_path / "from"), target=f"s3://bucket/{path}", credentials=s3.credentials))
    return contents


def download_of(s3: Server, proxy: Proxy, path: str, target: Path, patience: float = 20.0) -> Transfer:
    credentials = s3.at(proxy.endpoint)
    return Transfer(
        source=f"s3://bucket/{path}", target=str(target), credentials=credentials, patience_seconds=patience
    )


def upload_of(s3: Server, proxy: Proxy, source: Path, path: str, patience: float = 20.0) -> Transfer:
    credentials = s3.at(proxy.endpoint)
    return Transfer(
        source=str(source), target=f"s3://bucket/{path}", credentials=credentials, patience_seconds=patience
    )


def test_a_store_that_answers_503_for_a_while_is_asked_again(s3: Server, proxy: Proxy, tmp_path: Path) -> None:
    contents = stored(s3, tmp_path, "busy-down")
    proxy.refuse = lambda number: 5 <= number < 40
    transfer(download_of(s3, proxy, "busy-down", tmp_path / "to"))
    assert contents_of(tmp_path / "to") == contents
    proxy.refuse = lambda number: number % 3 == 0
    transfer(upload_of(s3, proxy, tmp_path / "from", "busy-up"))
    assert {entry.name for entry in folder_at(s3, "busy-up").entries()} == {*SIZES, MANIFEST}


def test_an_answer_that_is_cut_is_asked_for_again(s3: Server, proxy: Proxy, tmp_path: Path) -> None:
    contents = stored(s3, tmp_path, "cut")
    proxy.cut_after, proxy.cuts = MIB, 3
    transfer(download_of(s3, proxy, "cut", tmp_path / "to"))
    assert proxy.cuts == 0
    assert contents_of(tmp_path / "to") == contents


def test_a_store_that_is_gone_is_a_reason_and_leaves_nothing_visible(s3: Server, proxy: Proxy, tmp_path: Path) -> None:
    contents = stored(s3, tmp_path, "gone")
    proxy.refuse = lambda number: number > 20
    with pytest.raises(StoreError, match=r"s3://bucket/gone\S*: .*503"):
        transfer(download_of(s3, proxy, "gone", tmp_path / "to", patience=1))
    assert not (tmp_path / "to").exists()
    proxy.refuse = lambda _: False
    transfer(download_of(s3, proxy, "gone", tmp_path / "to"))
    assert contents_of(tmp_path / "to") == contents
    assert sorted(path.name for path in tmp_path.iterdir()) == ["from", "to"]


def test_a_store_that_dies_in_the_middle_of_an_upload_and_comes_back_has_it_whole(tmp_path: Path) -> None:
    port = free_port()
    make_tree(tmp_path / "from", SIZES)
    with s3_server(tmp_path / "s3", port) as server, proxy_to(port) as proxy:
        died = threading.Event()

        def die(_: int) -> None:
            if not died.is_set() and proxy.sent_bytes > 10 * MIB:
                died.set()
                server.process.kill()

        proxy.on_bytes = die
        with pytest.raises(StoreError):
            transfer(upload_of(server, proxy, tmp_path / "from", "out", patience=1))
        assert died.is_set()
    with s3_server(tmp_path / "s3", port) as server:
        folder = folder_at(server, "out")
        names = {entry.name for entry in folder.entries()}
        assert MANIFEST not in names
        assert CLAIM in names
        order = Transfer(source="s3://bucket/out", target=str(tmp_path / "to"), credentials=server.credentials)
        with pytest.raises(StoreError, match="not whole"):
            transfer(order)
        transfer(Transfer(source=str(tmp_path / "from"), target="s3://bucket/out", credentials=server.credentials))
        transfer(order)
        assert contents_of(tmp_path / "to") == contents_of(tmp_path / "from")


MOVER = """
import json, sys
from gangline.data.credentials import StoreCredentials
from gangline.data.transfers import Transfer, transfer
fields = json.loads(sys.argv[1])
transfer(Transfer(**{**fields, "credentials": StoreCredentials(**fields["credentials"])}))
"""


def mover(order: Transfer) -> "subprocess.Popen[bytes]":
    fields = {
        "source": order.source,
        "target": order.target,
        "credentials": order.credentials.as_plain(),
        "writer": order.writer,
    }
    return subprocess.Popen([sys.executable, "-c", MOVER, json.dumps(fields)])


@pytest.mark.parametrize("after", [100, 3 * MIB, 12 * MIB, 28 * MIB])
def test_a_killed_download_goes_on_where_it_was(s3: Server, proxy: Proxy, tmp_path: Path, after: int) -> None:
    contents = stored(s3, tmp_path, f"killed-{after}")
    killed = threading.Event()
    order = download_of(s3, proxy, f"killed-{after}", tmp_path / "to")
    started = threading.Event()
    process: list[subprocess.Popen[bytes]] = []

    def kill(passed: int) -> None:
        if passed >= after and not killed.is_set() and started.wait(10):
            killed.set()
            process[0].send_signal(signal.SIGKILL)

    proxy.on_bytes = kill
    process.append(mover(order))
    started.set()
    assert process[0].wait(60) == -signal.SIGKILL
    assert not (tmp_path / "to").exists()
    before = proxy.answered_bytes
    proxy.on_bytes = lambda _: None
    assert mover(order).wait(60) == 0
    assert contents_of(tmp_path / "to") == contents
    total = sum(SIZES.values())
    # What was on its way when it was killed comes again: eight chunks at most.
    assert proxy.answered_bytes - before < total - min(after, total) + 34 * MIB
    if after == 28 * MIB:
        assert proxy.answered_bytes - before < total


def test_a_killed_upload_goes_on_where_it_was(s3: Server, proxy: Proxy, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {f"part-{number}": 3 * MIB for number in range(10)})
    order = upload_of(s3, proxy, tmp_path / "from", "killed-up")
    killed, started = threading.Event(), threading.Event()
    process: list[subprocess.Popen[bytes]] = []

    def kill(_: int) -> None:
        if proxy.sent_bytes > 15 * MIB and not killed.is_set() and started.wait(10):
            killed.set()
            process[0].send_signal(signal.SIGKILL)

    proxy.on_bytes = kill
    process.append(mover(order))
    started.set()
    assert process[0].wait(60) == -signal.SIGKILL
    assert MANIFEST not in {entry.name for entry in folder_at(s3, "killed-up").entries()}
    proxy.on_bytes = lambda _: None
    assert mover(order).wait(60) == 0
    order = Transfer(source="s3://bucket/killed-up", target=str(tmp_path / "to"), credentials=s3.credentials)
    transfer(order)
    assert contents_of(tmp_path / "to") == contents_of(tmp_path / "from")


def test_an_upload_that_failed_does_not_store_again_what_it_had_stored(
    s3: Server, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gangline.data.commits._RENEW_SECONDS", 0.0)
    make_tree(tmp_path / "from", {f"part-{number}": 3 * MIB for number in range(10)})
    order = upload_of(s3, proxy, tmp_path / "from", "failed-up", patience=0.5)
    proxy.refuse = lambda _: proxy.sent_bytes > 20 * MIB
    with pytest.raises(StoreError):
        transfer(order)
    proxy.refuse, proxy.sent_bytes = (lambda _: False), 0
    transfer(order)
    assert proxy.sent_bytes < 25 * MIB
    assert {entry.name for entry in folder_at(s3, "failed-up").entries()} == {
        MANIFEST,
        *(f"part-{number}" for number in range(10)),
    }


def test_an_object_that_changes_while_it_is_read_comes_in_one_of_its_states(
    s3: Server, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Many requests, so that some come after the change: what one request answers is of one state anyway.
    monkeypatch.setattr(downloads, "_STRETCH_CHUNKS", 1)
    old, new = noise(60 * MIB, "old"), noise(100, "new")
    folder_at(s3, "changing").write("x", old)
    changed = threading.Event()

    def change(passed: int) -> None:
        if passed > 5 * MIB and not changed.is_set():
            changed.set()
            folder_at(s3, "changing").write("x", new)

    proxy.on_bytes = change
    meter = Meter()
    transfer(download_of(s3, proxy, "changing/x", tmp_path / "x"), meter=meter)
    assert changed.is_set()
    assert (tmp_path / "x").read_bytes() == new
    found = look(folder_at(s3, "changing/x"), Patterns())
    assert meter.digest == found.digest(), "the record tells what came, not what had been there"


def test_a_folder_that_is_written_anew_while_it_is_read_comes_in_one_of_its_states(
    s3: Server, proxy: Proxy, tmp_path: Path
) -> None:
    """Each object alone would be whole; together they would be half of before and half of after."""
    names = [f"part-{number:02}" for number in range(60)]
    old, new = (
        make_tree(tmp_path / "old", dict.fromkeys(names, 400)),
        make_tree(tmp_path / "new", dict.fromkeys(names, 500)),
    )
    order = Transfer(source=str(tmp_path / "old"), target="s3://bucket/anew", credentials=s3.credentials)
    transfer(order)
    written = threading.Event()

    def write(_: int) -> None:
        if proxy.requests > 30 and not written.is_set():
            written.set()
            transfer(replace(order, source=str(tmp_path / "new")))

    proxy.on_bytes = write
    meter = Meter()
    transfer(download_of(s3, proxy, "anew", tmp_path / "to"), meter=meter)
    assert written.is_set()
    assert old != new
    assert contents_of(tmp_path / "to") == new
    assert meter.digest == content_digest(tmp_path / "new")


def test_a_folder_that_somebody_begins_to_write_while_it_is_read_is_not_shown(
    s3: Server, proxy: Proxy, tmp_path: Path
) -> None:
    contents = stored(s3, tmp_path, "begun")
    begun = threading.Event()

    def begin(passed: int) -> None:
        if passed > MIB and not begun.is_set():
            begun.set()
            folder_at(s3, "begun").write(CLAIM, Manifest(writer="another").encode())

    proxy.on_bytes = begin
    with pytest.raises(StoreError, match="s3://bucket/begun is not whole"):
        transfer(download_of(s3, proxy, "begun", tmp_path / "to"))
    assert not (tmp_path / "to").exists()
    folder_at(s3, "begun").delete([CLAIM, "small-1", MANIFEST])
    transfer(download_of(s3, proxy, "begun", tmp_path / "to"))
    assert contents_of(tmp_path / "to") == {name: data for name, data in contents.items() if name != "small-1"}


@pytest.mark.parametrize(
    "path", ["around/results/model", "around/results/model/w", "around", "around/", "around/results"]
)
def test_what_is_not_whole_is_not_read_from_above_or_below_either(s3: Server, tmp_path: Path, path: str) -> None:
    folder = folder_at(s3, "around/results")
    folder.write("model/w", b"half")
    folder_at(s3, "around/other").write("x", b"whole")
    folder.write(CLAIM, Manifest(writer="another").encode())
    order = Transfer(source=f"s3://bucket/{path}", target=str(tmp_path / "to"), credentials=s3.credentials)
    with pytest.raises(
        StoreError, match=r"s3://bucket/around/results is not whole.* remove s3://bucket/around/results/"
    ):
        transfer(order)
    assert not (tmp_path / "to").exists()
    transfer(replace(order, source="s3://bucket/around/other"))
    assert contents_of(tmp_path / "to") == {"x": b"whole"}
    transfer(
        replace(order, source="s3://bucket/around", patterns=Patterns(include=("other/*",)), target=f"{tmp_path}/two")
    )
    assert contents_of(tmp_path / "two") == {"other/x": b"whole"}
    folder.delete([CLAIM])


def test_a_file_that_changes_while_it_is_stored_is_stored_in_one_of_its_states(
    s3: Server, proxy: Proxy, tmp_path: Path
) -> None:
    path = tmp_path / "from" / "x"
    make_tree(tmp_path / "from", {"x": 40 * MIB})
    changed = threading.Event()

    def change(_: int) -> None:
        if proxy.sent_bytes > 10 * MIB and not changed.is_set():
            changed.set()
            path.write_bytes(noise(30 * MIB, "new"))

    proxy.on_bytes = change
    transfer(upload_of(s3, proxy, tmp_path / "from", "rewritten"))
    assert changed.is_set()
    transfer(Transfer(source="s3://bucket/rewritten", target=str(tmp_path / "to"), credentials=s3.credentials))
    assert contents_of(tmp_path / "to") == {"x": noise(30 * MIB, "new")}


def test_a_file_that_never_rests_is_a_clear_reason(s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tree(tmp_path / "from", {"x": 10})
    states = iter(range(1000))
    monkeypatch.setattr("gangline.data.uploads._state", lambda path: (10, next(states)))
    order = Transfer(source=str(tmp_path / "from"), target="s3://bucket/restless", credentials=s3.credentials)
    with pytest.raises(StoreError, match="x changes while it is read"):
        transfer(order)
    assert MANIFEST not in {entry.name for entry in folder_at(s3, "restless").entries()}


def test_a_disk_without_room_is_a_clear_reason_and_gets_its_room_back(s3: Server, tmp_path: Path) -> None:
    stored(s3, tmp_path, "too-large")
    with small_disk(tmp_path / "disk", "20m") as disk:
        order = Transfer(source="s3://bucket/too-large", target=str(disk / "to"), credentials=s3.credentials)
        with pytest.raises(OSError, match="needs 31 MB more, and 21 MB are free"):
            transfer(order)
        assert list(disk.iterdir()) == []


def test_a_disk_that_fills_up_meanwhile_gets_its_room_back(
    s3: Server, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(s3, tmp_path, "fills-up")
    with small_disk(tmp_path / "disk", "40m") as disk:
        filled = threading.Event()

        def use(passed: int) -> None:
            if passed > 8 * MIB and not filled.is_set():
                filled.set()
                fill(disk)

        proxy.on_bytes = use
        with pytest.raises(OSError, match="No space left") as failure:
            transfer(download_of(s3, proxy, "fills-up", disk / "to"))
        assert failure.value.errno == errno.ENOSPC
        assert failure.value.filename == str(disk / "to")
        assert list(disk.iterdir()) == [disk / "filler"]


def test_a_copy_onto_a_full_disk_names_the_place_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "large").write_bytes(b"x" * 3 * MIB)
    with small_disk(tmp_path / "disk", "2m") as disk:
        with pytest.raises(OSError, match="No space left") as failure:
            transfer(Transfer(source=str(tmp_path / "large"), target=str(disk / "to")))
        assert tell_failure(failure.value) == 1
        assert capsys.readouterr().err == f"{disk}/to: No space left on device\n"
        with (
            tar_stream(packed(tmp_path / "large")) as stream,
            pytest.raises(PermanentError, match="no space left: it needs more than the 2 MiB that are free"),
        ):
            receive_into(stream, disk / "to", into=False)
        assert list(disk.iterdir()) == []


def test_the_memory_of_a_mover_is_bounded(s3: Server, tmp_path: Path) -> None:
    """As the kernel counts it from the start of the program: what its parent had does not count."""
    make_tree(tmp_path / "from", {f"medium-{number}": 4 * MIB for number in range(10)})
    with (tmp_path / "from" / "large").open("wb") as file:
        for number in range(40):
            file.write(noise(10 * MIB, str(number)))
    program = "import sys; exec(sys.argv[2]); print(open('/proc/self/status').read())"
    for source, target in (
        (str(tmp_path / "from"), "s3://bucket/memory"),
        ("s3://bucket/memory", str(tmp_path / "to")),
    ):
        fields = json.dumps({"source": source, "target": target, "credentials": s3.credentials.as_plain()})
        command = [sys.executable, "-c", program, fields, MOVER]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        (peak,) = (int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("VmHWM"))
        assert peak / 1024 < 150, target
    assert subprocess.run(["cmp", tmp_path / "from" / "large", tmp_path / "to" / "large"], check=False).returncode == 0
