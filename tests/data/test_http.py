"""Fetching from web servers that are busy, and from those that cut their answers."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gangline.data import moving
from gangline.data.moving import move
from gangline.data.progress import Meter
from gangline.data.trees import content_digest
from gangline.data.unpacking import PermanentError

CONTENT = bytes(range(256)) * 40_000


class Script(BaseHTTPRequestHandler):
    """Answers with what the script says: a status, or how many bytes come before the answer is cut."""

    protocol_version = "HTTP/1.1"
    steps: list[int]
    tag: str
    ranges: list[str]

    def do_GET(self) -> None:
        step = self.steps.pop(0) if self.steps else len(CONTENT)
        self.ranges.append(self.headers.get("Range", ""))
        if 400 <= step < 600:
            self.send_response(step)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        begin = 0
        if self.headers.get("Range") and self.headers.get("If-Range") == self.tag:
            begin = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT) - begin))
        if self.tag:
            self.send_header("ETag", self.tag)
        self.end_headers()
        self.wfile.write(CONTENT[begin : begin + step])
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[tuple[str, type[Script]]]:
    class Own(Script):
        steps, tag, ranges = [], '"one"', []

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/file", Own
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("tag", "want_ranges"),
    [('"one"', ["", "", "bytes=5000000-", "bytes=5001000-"]), ("", ["", "", "", ""]), ('W/"one"', ["", "", "", ""])],
    ids=["goes on", "nothing tells it is the same", "a weak tag does not tell"],
)
def test_a_server_that_is_busy_and_cuts_its_answers_is_asked_again(
    web: tuple[str, type[Script]], tmp_path: Path, tag: str, want_ranges: list[str]
) -> None:
    address, script = web
    script.tag, script.steps[:] = tag, [503, 5_000_000, 1000]
    meter = Meter()
    move(address, str(tmp_path / "file"), meter)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert script.ranges == want_ranges
    assert meter.digest == content_digest(tmp_path / "file")
    assert (meter.measure().moved_bytes, meter.measure().total_bytes) == (len(CONTENT), len(CONTENT))


def test_patience_ends_and_what_is_not_there_never_comes(
    web: tuple[str, type[Script]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, script = web
    monkeypatch.setattr(moving, "_PATIENCE_SECONDS", 0.0)
    script.steps[:] = [503]
    with pytest.raises(OSError, match="the server answered 503"):
        move(address, str(tmp_path / "file"))
    script.steps[:] = [100]
    with pytest.raises(OSError, match=f"ended after 100 of {len(CONTENT)} bytes"):
        move(address, str(tmp_path / "file"))
    script.steps[:] = [404]
    with pytest.raises(PermanentError, match="the server answered 404"):
        move(address, str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []
