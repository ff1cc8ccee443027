"""What the command line knows of its terminal: progress on standard error, colour only where it is wanted, the time."""

import os
import shutil
import sys
import time

import click

from gangline.model import Phase, Timestamp

_COLOURS = {
    Phase.COMPLETED: "green",
    Phase.FAILED: "red",
    Phase.CANCELLED: "yellow",
    Phase.HALTING: "yellow",
    Phase.HALTED: "yellow",
    Phase.PROCESSING: "cyan",
}


def say(text: str) -> None:
    """Tell the user about progress; never mixed with data."""
    print(text, file=sys.stderr, flush=True)


def colours() -> bool:
    """Whether standard output may be coloured."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int | None:
    """How many columns standard output has; None when it is not a terminal and lines may be as long as they are."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def phase_text(phase: Phase) -> str:
    """Write a phase, in its colour where colours are wanted."""
    return click.style(phase.value, fg=_COLOURS[phase]) if colours() and phase in _COLOURS else phase.value


def now() -> Timestamp:
    """Return the time on the user's clock, which is what "3m ago" is measured against."""
    return Timestamp(time.time())  # noqa: TID251  # an edge: nothing decides by it
