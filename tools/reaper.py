"""Ends what a run of the tests started and removes what it wrote, once the run is over, however it ended.

``python tools/reaper.py PID DIRECTORY`` waits for the end of a process. The processes of a run are known by a variable
of their environment that names the run's directory; they inherit it, whoever their parent is by then. Imports nothing
of this project before that end: every run of the tests starts one.
"""

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "TEST_RUN_DIRECTORY"
_DEADLINE_SECONDS = 20.0


def marked(directory: Path) -> Iterator[int]:
    """Yield the processes that a run started, but for the one that asks."""
    mark = f"{MARK}={directory}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it has ended, or is somebody else's
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)


def end(directory: Path) -> None:
    """Kill what a run started, again as long as there is any, and remove what it wrote."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while (found := list(marked(directory))) and time.monotonic() < deadline:
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    shutil.rmtree(directory, ignore_errors=True)


def main(process: int, directory: Path) -> None:
    """Wait for the run, then tidy up; a cluster it held is taken down too."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process)
        select.select([handle], [], [])
    if not directory.exists():
        return
    end(directory)
    from tools.cluster import sharing

    sharing.reap(print)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(int(sys.argv[1]), Path(sys.argv[2]))
