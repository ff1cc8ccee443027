"""Checkpoints that a container beside the program writes and fetches: the program's image needs no storage library.

    python3 -I -m gangline.runtime.checkpoint_sidecar ORDER.json

The two speak over a Unix socket in a directory that both have: one request a connection, a line of JSON each way.
What opens the address stays on this side. Paths are those of CHECKPOINT_DIR, which both see under the same name.
"""

from __future__ import annotations

import contextlib
import json
import select
import signal
import socket
import socketserver
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from gangline.runtime.checkpoint_address import CheckpointAddress, RankPart
from gangline.runtime.errors import MirrorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.data.credentials import StoreCredentials

_LOOK_SECONDS = 0.2
_PATIENCE_SECONDS = 120.0
"""How long the program waits for a container that its kubelet is starting again."""


@dataclass(frozen=True, slots=True)
class SidecarPlace:
    """The program's side, a CheckpointPlace: ``below`` is the folder of the address ``to`` that is meant."""

    to: str
    path: Path
    below: str
    part: RankPart

    def newest(self) -> tuple[int, int] | None:
        """See CheckpointPlace."""
        found = self._ask({"ask": "newest"})
        return (int(found[0]), int(found[1])) if found else None

    def fetch(self, step: int, attempt: int, target: Path) -> None:
        """See CheckpointPlace."""
        self._ask({"ask": "fetch", "step": step, "attempt": attempt, "path": str(target.absolute())})

    def write(self, step: int, path: Path, is_moot: Callable[[], bool]) -> None:
        """See CheckpointPlace."""
        self._ask({"ask": "write", "step": step, "path": str(path.absolute())}, is_moot)

    def _ask(self, request: dict[str, Any], is_moot: Callable[[], bool] = lambda: False) -> Any:
        """Ask until there is an answer: a container that was killed meanwhile comes back, and may be asked again."""
        line = json.dumps({**request, "below": self.below, "part": asdict(self.part)}).encode() + b"\n"
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                answer = self._exchange(line, is_moot)
            except OSError as error:
                if time.monotonic() > deadline:
                    reason = f"the container that writes them does not answer: {error}"
                    raise MirrorError(self.to, reason) from error
                time.sleep(_LOOK_SECONDS)
                continue
            if "failed" in answer:
                raise MirrorError(*answer["failed"])
            return answer["found"]

    def _exchange(self, line: bytes, is_moot: Callable[[], bool]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.path))
            connection.sendall(line)
            told = False
            while not select.select([connection], [], [], _LOOK_SECONDS)[0]:
                if not told and is_moot():
                    connection.shutdown(socket.SHUT_WR)
                    told = True
            with connection.makefile("rb") as stream:
                answer = stream.readline()
        if not answer.endswith(b"\n"):
            raise ConnectionError("it was stopped before it answered")
        found: dict[str, Any] = json.loads(answer)
        return found


@dataclass(frozen=True, slots=True)
class SidecarRequests:
    """The other side: does what is asked, in one folder and at one address."""

    to: str
    credentials: StoreCredentials
    folder: Path

    def answer(self, request: dict[str, Any], is_moot: Callable[[], bool]) -> tuple[int, int] | None:
        """Do what a request says; raises what went wrong."""
        given = request["part"]
        resume = given.pop("resume_from")
        part = RankPart(**given, resume_from=(int(resume[0]), int(resume[1])) if resume else None)
        place = CheckpointAddress(self._address(str(request["below"])), self.credentials, part)
        if request["ask"] == "newest":
            return place.newest()
        step, path = int(request["step"]), self._inside(Path(request["path"]))
        if request["ask"] == "fetch":
            place.fetch(step, int(request["attempt"]), path)
        else:
            place.write(step, path, is_moot)
        return None

    def _address(self, below: str) -> str:
        if PurePosixPath(below).is_absolute() or ".." in PurePosixPath(below).parts:
            raise MirrorError(self.to, f"'{below}' is not a folder of it")
        return f"{self.to.rstrip('/')}/{below}".rstrip("/")

    def _inside(self, path: Path) -> Path:
        """Refuse what is not in CHECKPOINT_DIR: this container sees more than the program does."""
        place = path.parent.resolve() / path.name
        if self.folder.resolve() not in place.parents or place.is_symlink():
            raise MirrorError(self.to, f"{path} is not in {self.folder}")
        return place


def serve(socket_path: Path, requests: SidecarRequests, stop: threading.Event) -> None:
    """Answer until told to stop; what is under way then is finished."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline()
            if not line.endswith(b"\n"):
                return

            def is_moot() -> bool:
                # The program lets go when it has a newer one, or dies.
                return bool(select.select([self.connection], [], [], 0)[0])

            try:
                answer: dict[str, Any] = {"found": requests.answer(json.loads(line), is_moot)}
            except Exception as error:  # noqa: BLE001  # the program hears of it; the next request is another matter
                answer = {"failed": [requests.to, getattr(error, "reason", "") or str(error)]}
            with contextlib.suppress(OSError):  # whoever asked is gone
                self.wfile.write(json.dumps(answer).encode() + b"\n")

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        block_on_close = True

    socket_path.unlink(missing_ok=True)
    with Server(str(socket_path), Handler) as server:
        # The program may run as another user of the pod.
        socket_path.chmod(0o666)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": _LOOK_SECONDS}, daemon=True).start()
        stop.wait()
        server.shutdown()


def main() -> None:
    """Serve as the order says: where the socket is, CHECKPOINT_DIR, the address, and the store that opens it."""
    from gangline.data.pod_mover import hide, open_store
    from gangline.data.trees import follow_links_only_below

    hide()
    order = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    wanted = order["checkpoints"]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    follow_links_only_below(order["directories"])
    store = order["stores"][wanted["store"]] if wanted["store"] else None
    requests = SidecarRequests(wanted["to"], open_store(store), Path(wanted["folder"]))
    serve(Path(wanted["socket"]), requests, stop)


if __name__ == "__main__":
    main()
