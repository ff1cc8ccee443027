"""The command line against a real cluster, as one person uses it from their own machine."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import yaml

from tools.cluster.pytest_plugin import ClusterUnderTest

PATIENCE_SECONDS = 90.0


class CommandLine:
    """Runs ``gangline --context``. ``user`` impersonates somebody without an administrator's rights."""

    def __init__(
        self, cluster: ClusterUnderTest, folder: Path, *, user: str | None = None, namespace: str = ""
    ) -> None:
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        self.context = config["current-context"]
        entry = next(item for item in config["contexts"] if item["name"] == self.context)["context"]
        if namespace:
            entry["namespace"] = namespace
        if user is not None:
            next(item for item in config["users"] if item["name"] == entry["user"])["user"]["as"] = user
        kubeconfig = folder / f"{user or 'admin'}.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_"))}
        self.environment = {**kept, "HOME": str(folder), "KUBECONFIG": str(kubeconfig)}
        self.folder = folder
        self.namespace = namespace

    def start(self, *words: str, output: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start a command that goes on."""
        return subprocess.Popen(
            self._command(*words),
            env=self.environment,
            cwd=self.folder,
            stdout=output,
            stderr=subprocess.DEVNULL,
        )

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "gangline.cli.main", "--context", self.context, *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command and wait for its end."""
        return subprocess.run(
            self._command(*words),
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    async def __call__(self, *words: str, want_code: int = 0) -> str:
        """Run a command that must end with this code; return all that it said."""
        done = await asyncio.to_thread(self.run, *words)
        assert done.returncode == want_code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    async def until(self, said: Callable[[str], bool], *words: str) -> str:
        """Repeat a command until it says what is expected; fails when the time is over."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            done = await asyncio.to_thread(self.run, *words)
            if said(done.stdout + done.stderr):
                return done.stdout + done.stderr
            assert time.monotonic() < deadline, (words, done.stdout, done.stderr)
