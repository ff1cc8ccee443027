"""What is kept of requests and answers."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gangline.serve.errors import ModelFailedError
from gangline.serve.request_log import LogSettings, RequestLog, check_target
from gangline.serve.tensors import Array

ABOUT = {"id": "17", "model": "digits", "version": "3"}
INPUTS = {"x": np.array([[1.0, np.nan]], np.float32)}


async def doubled() -> dict[str, Array]:
    return {"y": 2 * INPUTS["x"]}


async def refused() -> dict[str, Array]:
    raise ModelFailedError("it does not work")


def lines(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


async def test_requests_and_answers_are_kept_in_files_of_lines(tmp_path: Path) -> None:
    log = RequestLog(LogSettings(to=tmp_path.as_uri()))
    await log.recorded(ABOUT, INPUTS, doubled)
    with pytest.raises(ModelFailedError):
        await log.recorded(ABOUT | {"id": ""}, INPUTS, refused)
    log.close()
    answered, failed = lines(tmp_path)
    assert {**answered, "time": "", "seconds": 0} == {
        **ABOUT,
        "time": "",
        "seconds": 0,
        "status": 200,
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, None]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [2.0, None]}],
    }
    assert (failed["status"], failed["error"]) == (500, "it does not work")
    assert failed["id"]
    assert "outputs" not in failed


@pytest.mark.parametrize(("mode", "want"), [("request", {"inputs"}), ("response", {"outputs"})])
async def test_only_what_is_wanted_is_kept(tmp_path: Path, mode: Any, want: set[str]) -> None:
    log = RequestLog(LogSettings(to=tmp_path.as_uri(), mode=mode))
    await log.recorded(ABOUT, INPUTS, doubled)
    log.close()
    assert lines(tmp_path)[0].keys() & {"inputs", "outputs"} == want


def test_a_sample_is_about_as_large_as_it_should_be(tmp_path: Path) -> None:
    log = RequestLog(LogSettings(to=tmp_path.as_uri(), sample=0.1))
    chosen = sum(log.chosen() for _ in range(100_000))
    log.close()
    assert 9_000 < chosen < 11_000  # ten times the standard deviation


async def test_what_a_model_does_to_its_inputs_is_not_logged(tmp_path: Path) -> None:
    inputs = {"x": np.ones(2, np.float32)}

    async def spoil() -> dict[str, Array]:
        inputs["x"][:] = 0
        return {}

    log = RequestLog(LogSettings(to=tmp_path.as_uri()))
    await log.recorded(ABOUT, inputs, spoil)
    log.close()
    assert lines(tmp_path)[0]["inputs"][0]["data"] == [1.0, 1.0]


class Broken:
    """A store that takes nothing."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def write(self, records: Sequence[dict[str, Any]]) -> None:
        self.asked.set()
        raise OSError("no space")


async def test_what_cannot_be_written_is_dropped_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    log = RequestLog(LogSettings(to="file:///nowhere"), Broken())
    await log.recorded(ABOUT, INPUTS, doubled)
    log.close()
    assert log.dropped == 1
    assert "requests cannot be logged: no space" in capsys.readouterr().err


@pytest.fixture
def sink() -> Iterator[tuple[str, list[tuple[dict[str, str], Any]]]]:
    """A server that takes events."""
    taken: list[tuple[dict[str, str], Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append(({name.lower(): value for name, value in self.headers.items()}, json.loads(body)))
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/events", taken
    server.shutdown()
    server.server_close()
    thread.join()


async def test_a_url_gets_the_events_that_kserves_logger_sends(sink: tuple[str, list[Any]]) -> None:
    address, taken = sink
    log = RequestLog(LogSettings(to=address, name="mine"))
    await log.recorded(ABOUT, {"x": np.ones(1, np.int64)}, doubled)
    log.close()
    (asked, request), (answered, response) = taken
    assert asked["ce-type"] == "org.kubeflow.serving.inference.request"
    assert answered["ce-type"] == "org.kubeflow.serving.inference.response"
    assert asked["ce-id"] == answered["ce-id"] == "17"
    assert asked["ce-inferenceservicename"] == "mine"
    assert request == {"id": "17", "inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}]}
    assert response["model_name"] == "digits"


@pytest.mark.parametrize("address", ["ftp://a/b", "nfs://host/dir", "nonsense://"])
def test_an_address_that_makes_no_sense_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        check_target(LogSettings(to=address))
