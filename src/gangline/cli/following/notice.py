"""A notice at the end of what somebody waits for: the terminal's bell, and the desktop's notice where there is one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from gangline.model import Job

_SECONDS = 5.0


def told(jobs: Sequence[Job], code: int, *, wanted: bool) -> int:
    """Give notice that jobs have ended, if that is wanted; return the exit code that was given."""
    if wanted:
        names = ", ".join(job.name for job in jobs)
        notify(f"{names}: {'completed' if code == 0 else f'ended with code {code}'}")
    return code


def notify(text: str) -> None:
    """Ring the bell, and show a notice where a desktop is there to show it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\a\033]9;{text}\a")  # many terminals show OSC 9 as a notice, others ignore it
        sys.stderr.flush()
    for program in (("notify-send", "Gangline", text), ("osascript", "-e", f'display notification "{text}"')):
        if shutil.which(program[0]) and (program[0] != "notify-send" or os.environ.get("DISPLAY")):
            subprocess.run(program, check=False, timeout=_SECONDS, capture_output=True)
            return
