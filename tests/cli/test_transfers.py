"""How far data is, as users see it while a job downloads."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

SIZE = 2 << 20


@pytest.fixture
def slow() -> Iterator[tuple[str, threading.Event]]:
    """A file of which half comes, and the rest when the event is set."""
    more = threading.Event()

    class Halves(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(SIZE))
            self.end_headers()
            self.wfile.write(b"x" * (SIZE // 2))
            more.wait(60)
            self.wfile.write(b"x" * (SIZE // 2))

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Halves) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/file", more
        more.set()
        server.shutdown()
        thread.join()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def test_a_download_shows_bytes_rate_and_time_left(
    shell: Shell, slow: tuple[str, threading.Event], tmp_path: Path
) -> None:
    address, more = slow
    file = tmp_path / "job.yaml"
    file.write_text(
        f"""
metadata: {{name: fetching}}
spec:
  command: [ls]
  resources: {{cpu: 100m, memory: 64Mi}}
  data: {{inputs: [{{from: "{address}", to: $DATA_DIR/}}]}}
"""
    )
    said = tmp_path / "said"
    with said.open("w") as output:
        following = subprocess.Popen(
            shell.command("submit", "-f", str(file), "--follow"), env=shell.environment, stderr=output
        )
        try:
            until(lambda: "1 MiB of 2 MiB" in shell.run("get", "fetching").stdout)
            assert "1 MiB of 2 MiB" in shell.out("describe", "fetching")
            moving = json.loads(shell.out("get", "fetching", "-o", "json"))["status"]["transfer"]
            assert (moving["moved_bytes"], moving["total_bytes"]) == (SIZE // 2, SIZE)
            until(lambda: "fetching is DOWNLOADING: " in said.read_text())
        finally:
            more.set()
            following.wait(60)
    assert following.returncode == 0
    assert "B/s" in said.read_text()
    ended = json.loads(shell.out("get", "fetching", "-o", "json"))["status"]
    assert "transfer" not in ended
    assert ended["inputs"][0]["digest"].startswith("sha256:")
