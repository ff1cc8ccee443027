"""Lines of jobs' output on standard output."""

import sys
from datetime import datetime

import click

from gangline.cli import terminal
from gangline.model import Job, ReplicaId
from gangline.sdk import LogLine

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")


def needs_prefix(job: Job) -> bool:
    """Whether lines must say which replica wrote them."""
    return sum(role.most for role in job.spec.roles) > 1


class LinePrinter:
    """Writes lines; each begins with its replica when there is more than one, in that replica's colour."""

    def __init__(self, *, prefixed: bool, timestamps: bool = False, flush: bool = False) -> None:
        self._prefixed = prefixed
        self._timestamps = timestamps
        self._flush = flush
        self._coloured = terminal.colours()
        self._prefixes: dict[ReplicaId, str] = {}

    def print(self, line: LogLine) -> None:
        """Write one line."""
        sys.stdout.write(f"{self.text(line)}\n")
        if self._flush:
            sys.stdout.flush()

    def text(self, line: LogLine) -> str:
        """Return what to write for a line."""
        parts = []
        if self._timestamps:
            parts.append(datetime.fromtimestamp(line.at).astimezone().isoformat(timespec="milliseconds"))
        if self._prefixed:
            parts.append(self._prefix(line.replica))
        return " ".join([*parts, line.text]) if parts else line.text

    def _prefix(self, replica: ReplicaId) -> str:
        if replica not in self._prefixes:
            colour = _COLOURS[len(self._prefixes) % len(_COLOURS)]
            text = f"[{replica}]"
            self._prefixes[replica] = click.style(text, fg=colour) if self._coloured else text
        return self._prefixes[replica]
