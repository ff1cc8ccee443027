"""A team's service as a process of its own, with what a test must know of it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DEADLINE_SECONDS = 120.0


class ServiceProcess:
    """One ``gangline server run --listen``, over plain HTTP on a loopback port."""

    def __init__(self, folder: Path, sockets: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder, self.sockets = folder, sockets
        self.address = ""
        self._more = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_"))}
        places = {
            "HOME": self.folder,
            "GANGLINE_HOME": self.folder / "data",
            "GANGLINE_RUNTIME_DIRECTORY": self.sockets,
        }
        # The interpreter need not be where other users can run it.
        return (
            kept
            | {name: str(place) for name, place in places.items()}
            | {
                "GANGLINE_SYSTEM_USERS": "none",
                **self._more,
            }
        )

    def start(self, listen: str = "127.0.0.1:0", *options: str) -> None:
        self.folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "gangline", "server", "run", "--listen", listen, "--plain-http", *options]
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=self.environment(), stderr=log)

        def found() -> str | None:
            text = self.log.read_text()[before:]
            assert self._process is not None
            assert self._process.poll() is None, text
            match = re.search(r"serving a team on ([^\s\"]+)", text)
            return match and match[1]

        self.address = wait_for(found)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(DEADLINE_SECONDS)
            self._process = None

    def type(self, *words: str) -> str:
        command = [sys.executable, "-m", "gangline", *words]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def wait_for(look: Callable[[], Any]) -> Any:
    """Return what there is, once there is something."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, look
        time.sleep(0.05)  # noqa: TID251  # another process is waited for
    return found


def ask(
    method: str, address: str, token: str, body: object = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any, Mapping[str, str]]:
    """Ask a service once; 0 as the status means that nobody answered."""
    data = None if body is None else json.dumps(body).encode()
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(address, data=data, method=method, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, content, told = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        status, content, told = error.code, error.read(), error.headers
    except (OSError, ValueError):
        return 0, None, {}
    try:
        return status, json.loads(content), dict(told)
    except ValueError:
        return status, content.decode(), dict(told)
