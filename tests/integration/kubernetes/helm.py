"""Helm, as somebody uses it with the chart of this tree."""

import os
import subprocess
from pathlib import Path

CHART = Path(__file__).parents[3] / "deploy" / "chart"


class Helm:
    """Runs Helm with a home of its own, so that nothing of the user's counts; ``kubeconfig`` names its cluster."""

    def __init__(self, program: Path, home: Path, *, kubeconfig: Path | None = None) -> None:
        self.program = program
        folders = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        self.environment = {**os.environ, **folders, "HOME": str(home), "KUBECONFIG": str(kubeconfig or os.devnull)}

    def try_to(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command, whatever comes of it."""
        command = [str(self.program), *words]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300, check=False)

    def run(self, *words: str) -> str:
        """Run a command that must succeed, and return what it says."""
        done = self.try_to(*words)
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
        return done.stdout


def settings(**values: object) -> list[str]:
    """Write the chart's values as words of the command line."""
    return [
        word
        for name, value in values.items()
        for word in ("--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}")
    ]
