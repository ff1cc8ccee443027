"""The program that reads numbers out of what another writes: real processes, files and ports."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from gangline.runtime import collecting
from gangline.runtime.protocol_buffers import field_to_bytes
from gangline.runtime.pushed_metrics import pushed_metrics

PROGRAM = collecting.__file__


def collect(tmp_path: Path, order: dict[str, Any], *command: str) -> tuple[subprocess.CompletedProcess[str], list[Any]]:
    metrics = tmp_path / "metrics.jsonl"
    environment = {**os.environ, "GANGLINE_COLLECTOR": json.dumps(order), "GANGLINE_METRICS": str(metrics)}
    done = subprocess.run(
        [sys.executable, "-I", PROGRAM, "--", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = metrics.read_text().splitlines() if metrics.exists() else []
    return done, [(each["name"], each["value"], each["step"]) for each in map(json.loads, lines)]


def test_numbers_are_found_in_both_streams_which_pass_through(tmp_path: Path) -> None:
    script = "echo 'loss=0.5 x=1'; echo 'a=2 loss = 2.5e-1' >&2; printf 'loss=1'; exit 3"
    done, found = collect(tmp_path, {"kind": "StdOut", "metrics": ["loss"]}, "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (3, "loss=0.5 x=1\nloss=1", "a=2 loss = 2.5e-1\n")
    assert sorted(value for _, value, _ in found) == [0.25, 0.5, 1.0]
    assert sorted(step for _, _, step in found) == [1, 2, 3]


def test_filters_say_what_numbers_look_like(tmp_path: Path) -> None:
    order = {"kind": "StdOut", "metrics": ["loss"], "filters": [r"'([\w|-]+)'\s*:\s*([\d.]+)"]}
    _, found = collect(tmp_path, order, "echo", "{'loss': 0.75, 'rate': 1} loss=9")
    assert found == [("loss", 0.75, 1)]


def test_what_is_not_a_number_is_told_as_such(tmp_path: Path) -> None:
    order = {"kind": "StdOut", "metrics": ["loss"], "filters": [r"(\w+)=(\S+)"]}
    _, found = collect(tmp_path, order, "echo", "loss=nan loss=many loss=1")
    assert found == [("loss", None, 1), ("loss", 1.0, 2)]


def test_a_file_is_read_to_its_unfinished_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    order = {"kind": "File", "metrics": ["loss"], "path": str(path), "format": "TEXT"}
    _, found = collect(tmp_path, order, "sh", "-c", f"echo loss=1 > {path}; printf loss=2 >> {path}")
    assert found == [("loss", 1.0, 1), ("loss", 2.0, 2)]


def test_json_lines_hold_texts_or_numbers(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"loss": "0.5", "epoch": 1}\nnot json\n[1]\n{"loss": 0.25}\n')
    order = {"kind": "File", "metrics": ["loss"], "path": str(path), "format": "JSON"}
    _, found = collect(tmp_path, order, "true")
    assert found == [("loss", 0.5, 1), ("loss", 0.25, 2)]


@pytest.mark.parametrize(
    ("metric", "tag", "folder", "want"),
    [
        ("accuracy", "accuracy", "/logs/test", True),
        ("accuracy", "accuracy_1", "/logs/test", True),
        ("test/accuracy", "accuracy", "/logs/test", True),
        ("train/accuracy", "accuracy", "/logs/test", False),
        ("train/accuracy", "train/accuracy", "/logs", True),
        ("loss", "accuracy", "/logs", False),
    ],
)
def test_a_tag_is_a_metric_by_its_name_or_its_folder(metric: str, tag: str, folder: str, want: bool) -> None:
    assert collecting._is_meant(metric, tag, folder) is want


def test_a_program_that_a_signal_ends_ends_us_the_same_way(tmp_path: Path) -> None:
    done, _ = collect(tmp_path, {"kind": "StdOut", "metrics": ["loss"]}, "sh", "-c", "kill -9 $$")
    assert done.returncode == -signal.SIGKILL


def test_signals_reach_the_program(tmp_path: Path) -> None:
    script = "trap 'echo loss=7; exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.1; done"
    done, found = collect(tmp_path, {"kind": "StdOut", "metrics": ["loss"]}, "sh", "-c", script)
    assert (done.returncode, found) == (5, [("loss", 7.0, 1)])


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    done, _ = collect(tmp_path, {"kind": "StdOut", "metrics": ["loss"]}, "no-such-program")
    assert (done.returncode, done.stderr) == (127, "command not found: 'no-such-program'\n")


def test_what_is_pushed_is_taken_beside_a_trial(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    order = json.dumps({"kind": "Push", "port": port})
    environment = {**os.environ, "GANGLINE_COLLECTOR": order, "GANGLINE_METRICS": str(metrics)}
    server = subprocess.Popen([sys.executable, "-m", "gangline.runtime.collecting"], env=environment)
    metric = field_to_bytes(1, b"loss") + field_to_bytes(2, b"0.5")
    silent = field_to_bytes(1, b"loss") + field_to_bytes(2, b"unavailable")
    logs = b"".join(field_to_bytes(1, field_to_bytes(2, each)) for each in (metric, silent, metric))
    request = field_to_bytes(1, b"trial-1") + field_to_bytes(2, logs)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            method = channel.unary_unary("/api.v1.beta1.DBManager/ReportObservationLog")
            assert method(request, timeout=30, wait_for_ready=True) == b""
    finally:
        server.terminate()
        assert server.wait(timeout=30) == 0
    found = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [(each["name"], each["value"], each["step"]) for each in found] == [("loss", 0.5, 1), ("loss", 0.5, 2)]
    assert pushed_metrics(request) == ("trial-1", [("loss", 0.5), ("loss", 0.5)])
    assert pushed_metrics(b"\x0a\xff") == ("", [])


def test_a_folder_is_copied_before_the_program_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "weights").write_text("loss=3\n")
    monkeypatch.setenv("GANGLINE_COPY", f"{tmp_path}/parent:{tmp_path}/own")
    _, found = collect(tmp_path, {"kind": "StdOut", "metrics": ["loss"]}, "cat", f"{tmp_path}/own/weights")
    assert found == [("loss", 3.0, 1)]
