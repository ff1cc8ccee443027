"""The mover as the pods of a cluster run it; moves themselves are tested with the local engine, which makes them."""

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

from gangline.data import pod_mover
from gangline.data.model_files import KeptModel
from gangline.data.moving import PERMANENT_FAILURE


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
    """Run the mover as a process, as its container does."""
    file = folder / "moves.json"
    file.write_text(json.dumps({"writer": "job-1", **order}))
    command = [sys.executable, "-I", "-m", "gangline.data.pod_mover", kind, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def parts_entry(tmp_path: Path, to: str, name: str = "") -> dict[str, Any]:
    return {
        "job": "job-1",
        "move": ["/elsewhere", to],
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
    entry = {"job": "job-1", "move": [str(tmp_path / "from"), str(tmp_path / "to")]}
    order = {"writer": "job-1", "inputs": [entry], "receipts": str(tmp_path / "receipts")}
    pod_mover.fetch_inputs(order)
    (tmp_path / "from").write_text("second")
    pod_mover.fetch_inputs(order)
    assert (tmp_path / "to").read_text() == "first"


@pytest.mark.parametrize(
    ("entry", "want_code", "want_message"),
    [
        ({"from": "/no/such/file"}, PERMANENT_FAILURE, "/no/such/file"),
        ({"from": "pvc://claim/no", "mounted": "/no/such"}, 3, "pvc://claim/no is not a directory"),
        ({"from": "http://127.0.0.1:1/x"}, 1, "http://127.0.0.1:1/x"),
    ],
    ids=["no such file", "no such directory on a claim", "nobody answers"],
)
def test_a_failure_says_why_and_whether_for_good(
    tmp_path: Path, entry: dict[str, str], want_code: int, want_message: str
) -> None:
    rest = {name: value for name, value in entry.items() if name != "from"}
    move = [entry["from"], str(tmp_path / "to")]
    done = run("inputs", {"inputs": [{"job": "job-1", "move": move, **rest}]}, tmp_path)
    assert done.returncode == want_code
    assert want_message in done.stderr.splitlines()[-1]


def test_results_are_stored_once_the_word_is_given(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "word").write_text("")
    outputs = [{"move": [str(tmp_path / "results"), str(tmp_path / "kept")]}]
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
    outputs = [{"move": [str(tmp_path / "results"), str(tmp_path / "kept")]}]
    order = {"writer": "job-1", "outputs": outputs, "word": f"{tmp_path}/word", "go": "store"}
    (tmp_path / "moves.json").write_text(json.dumps(order))
    monkeypatch.setattr(sys, "argv", ["pod_mover", "store", f"{tmp_path}/moves.json"])
    monkeypatch.setattr(pod_mover, "TERMINATION_LOG", f"{tmp_path}/told")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    pod_mover.main()
    want = f"not copied from {tmp_path}/results: pipe (a pipe)"
    note, models, report = pod_mover.heard((tmp_path / "told").read_text())
    assert (note, models) == (want, {})
    assert json.loads(report)["moved"][0]["digest"].startswith("sha256:")
    assert capsys.readouterr().err == f"{want}\n"


def test_a_pod_tells_its_kubelet_what_models_it_has_left() -> None:
    kept = {1: pod_mover.Registration("mnist", "s3://bucket/models", KeptModel("d" * 64, 10, 2, '{"inputs": []}'))}
    assert pod_mover.heard(pod_mover.told("a note", kept)) == ("a note", kept, "")
    assert pod_mover.heard("a note") == ("a note", {}, "")
    assert pod_mover.heard(pod_mover.told("a note", kept, "{}")) == ("a note", kept, "{}")
    assert pod_mover.heard(pod_mover.told("a note", kept, "x" * 5000)) == ("a note", kept, "")
    assert pod_mover.heard("") == ("", {}, "")


def test_a_signature_that_no_kubelet_would_tell_is_left_out_with_a_word() -> None:
    model = KeptModel("d" * 64, 10, 2, "x" * 5000)
    text = pod_mover.told("", {0: pod_mover.Registration("mnist", "pvc://models", model)})
    assert len(text.encode()) < 4096
    note, models, _ = pod_mover.heard(text)
    assert "signature is too long" in note
    assert models[0].kept == model._replace(signature="")
