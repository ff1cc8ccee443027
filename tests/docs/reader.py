"""A reader who types what a page says: one shell, an empty home, a copy of the repository as a fresh clone has it."""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from gangline.errors import NotFoundError
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of, running_process, stop_service
from gangline.settings import Settings
from tests.docs.pages import ROOT, Command, is_as_shown

LONGEST_SECONDS = 400
LOOK_SECONDS = 60
READING = ("get", "list", "logs", "explain", "sweep get", "top")
"""Commands that change nothing: a reader who is too quick looks again."""


class Reader:
    """Runs commands one after the other in the same shell; ends all it started with ``leave``."""

    def __init__(self, place: Path, **more: str) -> None:
        home, run = place / "home", place / "run"
        for folder in (home, run):
            folder.mkdir(mode=0o700)
        kept = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
        self.environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(run),
            "VIRTUAL_ENV": sys.prefix,
            "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
            "TMPDIR": str(run),
            **more,
        }
        self.settings = Settings.load(self.environment)
        self.clone = place / "clone"
        for name in ("examples", "docs"):
            shutil.copytree(ROOT / name, self.clone / name, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
        self.directory = self.clone
        self._output = place / "output"
        ours, theirs = os.pipe()
        self._codes = os.fdopen(ours, "rb", buffering=0)
        self._shell = subprocess.Popen(
            ["bash", "--norc", "-s", str(theirs)],
            stdin=subprocess.PIPE,
            cwd=self.clone,
            env=self.environment,
            pass_fds=(theirs,),
            text=True,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, text: str) -> tuple[int, str]:
        """Run a command; return its exit code and all that it printed."""
        stdin = self._shell.stdin
        assert stdin is not None
        stdin.write(f"{{ {text}\n}} >{self._output} 2>&1 </dev/null\necho $? $PWD >&$1\n")
        stdin.flush()
        if not select.select([self._codes], [], [], LONGEST_SECONDS)[0]:
            raise TimeoutError(f"{text!r} did not end; it printed:\n{self._output.read_text()}")
        code, _, directory = self._codes.read(4096).decode().strip().partition(" ")
        self.directory = Path(directory)
        return int(code), self._output.read_text(errors="replace")

    def follow(self, command: Command) -> None:
        """Run a command as a page shows it and compare what it prints."""
        wanted_failure = any(line.startswith("error:") for line in command.shown)
        deadline = time.monotonic() + LOOK_SECONDS
        while True:
            code, printed = self.type(command.text)
            right = is_as_shown(command.shown, printed) and (code != 0) == wanted_failure
            words = re.sub(r"^gangline --context \S+", "gangline", command.text)
            reads = any(words.startswith(f"gangline {verb}") for verb in READING)
            if right or not reads or time.monotonic() > deadline:
                break
        shown = "\n".join(command.shown)
        assert right, f"$ {command.text}\nexit code {code}, printed:\n{printed}\nThe page shows:\n{shown}"

    def leave(self) -> None:
        """End the shell, every job and the service."""
        os.killpg(self._shell.pid, signal.SIGKILL)  # it waits for the next command, or for one that does not end
        self._shell.communicate()
        self._codes.close()
        if running_process(self.settings) is None:
            return
        with Client(address_of(self.settings), settings=self.settings) as client:
            for sweep in client.sweeps.list():
                client.sweeps.delete(sweep.name)
            for job in client.list(limit=None):
                with contextlib.suppress(NotFoundError):
                    client.delete(job.id)
        stop_service(self.settings)
