"""A team's service in a process of its own, and commands typed by its operator and by users elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path


class Team:
    """The service, and commands typed by its operator and by users elsewhere."""

    def __init__(self, folder: Path, sockets: Path) -> None:
        self._folder, self._sockets = folder, sockets
        self._server: subprocess.Popen[str] | None = None
        self.address = self.rpc_address = self.fingerprint = ""

    def environment(self, who: str) -> dict[str, str]:
        home = self._folder / who
        home.mkdir(exist_ok=True)
        places = {"GANGLINE_HOME": home / "data", "GANGLINE_RUNTIME_DIRECTORY": self._sockets / who, "HOME": home}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_"))}
        return kept | {name: str(place) for name, place in places.items()}

    def start(self, *options: str) -> None:
        command = [sys.executable, "-m", "gangline", "server", "run", "--listen", "127.0.0.1:0", *options]
        self._server = subprocess.Popen(command, env=self.environment("root"), stderr=subprocess.PIPE, text=True)
        assert self._server.stderr is not None
        for line in self._server.stderr:
            if found := re.search(r"fingerprint is (\w+)", line):
                self.fingerprint = found[1]
            if found := re.search(r"serving a team on (http\S+)", line):
                self.address = found[1]
            if found := re.search(r"serving a team on (grpc\S+)", line):
                self.rpc_address = found[1]
            if self.address and (self.rpc_address or "--grpc" not in options):
                return
        raise AssertionError("it did not start")

    def stop(self) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.communicate(timeout=60)

    def type(self, who: str, *words: str, want: int = 0, program: tuple[str, ...] = ("-m", "gangline")) -> str:
        command = [sys.executable, *program, *words]
        done = subprocess.run(
            command, env=self.environment(who), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == want, done.stderr
        return done.stdout if want == 0 else done.stderr

    def log_in(self, who: str, token: str, *, want: int = 0, program: tuple[str, ...] = ("-m", "gangline")) -> None:
        file = self._folder / f"{who}.token"
        file.write_text(token)
        words = ("--token-file", str(file), "--name", "gpu", "--fingerprint", self.fingerprint)
        self.type(who, "login", self.address, *words, want=want, program=program)
