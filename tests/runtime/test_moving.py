"""The mover as the pods of a cluster run it; ``move`` itself is tested with the local engine, which uses it too."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from gangline.engines.kubernetes.staging import Stock, moves_to_data
from gangline.runtime import moving
from gangline.testing.builders import make_spec


def write_parts(folder: Path, files: dict[str, str], size: int = 40) -> None:
    """Lay an archive in parts, as a cluster mounts it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    content = buffer.getvalue()
    for number, start in enumerate(range(0, len(content), size)):
        (folder / f"{number:03}").mkdir(parents=True)
        (folder / f"{number:03}" / "part").write_bytes(content[start : start + size])


def run(kind: str, order: dict[str, Any], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run what travels to a cluster by itself, as an image without Gangline would."""
    there = folder / "moves"
    there.mkdir(exist_ok=True)
    for name, text in moves_to_data(make_spec(), "job-1", Stock()).items():
        (there / name).write_text(text)
    file = there / "moves.json"
    file.write_text(json.dumps(order))
    command = [sys.executable, "-I", "-S", str(there / "moving.py"), kind, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def parts_entry(tmp_path: Path, to: str, name: str = "") -> dict[str, str]:
    return {
        "from": "/elsewhere",
        "to": to,
        "parts": str(tmp_path / "parts"),
        "scratch": str(tmp_path / "scratch"),
        "name": name,
    }


def test_parts_are_joined_and_unpacked_into_the_target(tmp_path: Path) -> None:
    write_parts(tmp_path / "parts", {"a": "A", "inner/b": "B"})
    (tmp_path / "data").mkdir()
    done = run("inputs", {"inputs": [parts_entry(tmp_path, str(tmp_path / "data"))]}, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data" / "inner" / "b").read_text() == "B"
    assert not (tmp_path / "scratch").exists()


def test_a_single_file_takes_the_name_of_its_target(tmp_path: Path) -> None:
    write_parts(tmp_path / "parts", {"a.txt": "A"})
    done = run("inputs", {"inputs": [parts_entry(tmp_path, str(tmp_path / "data" / "b.txt"), "a.txt")]}, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data" / "b.txt").read_text() == "A"


def test_what_has_a_receipt_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "from").write_text("first")
    entry = {"from": str(tmp_path / "from"), "to": str(tmp_path / "to")}
    order = {"inputs": [entry], "receipts": str(tmp_path / "receipts")}
    moving.fetch_inputs(order)
    (tmp_path / "from").write_text("second")
    moving.fetch_inputs(order)
    assert (tmp_path / "to").read_text() == "first"


@pytest.mark.parametrize(
    ("entry", "want_code", "want_message"),
    [
        ({"from": "/no/such/file", "to": "/tmp/x"}, moving.PERMANENT_FAILURE, "/no/such/file"),
        ({"from": "pvc://claim/no", "to": "/tmp/x", "mounted": "/no/such"}, 3, "pvc://claim/no is no directory"),
        ({"from": "http://127.0.0.1:1/x", "to": "/tmp/x"}, 1, "http://127.0.0.1:1/x"),
    ],
    ids=["no such file", "no such directory on a claim", "nobody answers"],
)
def test_a_failure_says_why_and_whether_for_good(
    tmp_path: Path, entry: dict[str, str], want_code: int, want_message: str
) -> None:
    done = run("inputs", {"inputs": [{**entry, "to": str(tmp_path / "to")}]}, tmp_path)
    assert done.returncode == want_code
    assert want_message in done.stderr.splitlines()[-1]


def test_results_are_stored_once_the_word_is_given(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "word").write_text("")
    outputs = [{"from": str(tmp_path / "results"), "to": str(tmp_path / "kept")}]
    order = {"outputs": outputs, "word": str(tmp_path / "word"), "go": "store"}
    ended = threading.Event()

    def wait() -> None:
        run("outputs", order, tmp_path)
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not ended.wait(0.5)
    assert not (tmp_path / "kept").exists()
    (tmp_path / "results" / "model").write_bytes(gzip.compress(b"weights"))
    (tmp_path / "word").write_text("store")
    assert ended.wait(20)
    waiting.join()
    assert (tmp_path / "kept" / "model").exists()


def test_a_pod_tells_its_kubelet_what_was_left_out_of_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").mkdir()
    os.mkfifo(tmp_path / "results" / "pipe")
    (tmp_path / "word").write_text("store")
    outputs = [{"from": str(tmp_path / "results"), "to": str(tmp_path / "kept")}]
    (tmp_path / "moves.json").write_text(json.dumps({"outputs": outputs, "word": f"{tmp_path}/word", "go": "store"}))
    monkeypatch.setattr(sys, "argv", ["moving.py", "outputs", f"{tmp_path}/moves.json"])
    monkeypatch.setattr(moving, "TERMINATION_LOG", f"{tmp_path}/told")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    moving.main()
    want = f"not copied from {tmp_path}/results: pipe (a pipe)"
    assert (tmp_path / "told").read_text() == want
    assert capsys.readouterr().err == f"{want}\n"


class ObjectStore:
    """As much of fsspec as a mover needs: no links, and a slash at the end of a path is lost."""

    def __init__(self, *, async_impl: bool) -> None:
        self.async_impl = async_impl
        self.folders: set[str] = set()
        self.files: dict[str, str] = {}

    def makedirs(self, path: str, exist_ok: bool) -> None:
        assert exist_ok
        self.folders.add(path)

    def put_file(self, source: str, path: str) -> None:
        self.files[path] = Path(source).read_text()


@pytest.mark.parametrize("async_impl", [True, False])
def test_an_object_store_gets_what_links_lead_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, async_impl: bool
) -> None:
    store = ObjectStore(async_impl=async_impl)
    monkeypatch.setattr(moving, "_remote", lambda url: (store, url.partition("://")[2].rstrip("/")))
    (tmp_path / "results" / "step-40").mkdir(parents=True)
    (tmp_path / "results" / "step-40" / "model").write_text("forty")
    (tmp_path / "results" / "best").symlink_to("step-40")
    os.mkfifo(tmp_path / "results" / "pipe")
    note = moving.move(str(tmp_path / "results"), "s3://bucket/out")
    assert store.files == {"bucket/out/best/model": "forty", "bucket/out/step-40/model": "forty"}
    assert store.folders == {"bucket/out", "bucket/out/best", "bucket/out/step-40"}
    assert note.endswith(": pipe (a pipe)")
    moving.move(str(tmp_path / "results" / "best" / "model"), "s3://bucket/one/")
    moving.move(str(tmp_path / "results" / "best" / "model"), "s3://bucket/named")
    assert store.files["bucket/one/model"] == store.files["bucket/named"] == "forty"
