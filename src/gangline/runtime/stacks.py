"""Lets an engine know where a program is: on a signal, or by itself where nobody may send one.

On one machine the stacks of all threads are written to a file on a signal. The file is there as long as the program has
asked for the signal; without it the engine leaves the program alone, for whom the signal would be the end.

In a pod nobody may send signals. There the program watches itself: when it has neither reported nor used a processor or
GPU for most of the time that its job's policy allows, it writes its stacks among its output. ``faulthandler`` does it
where even that is impossible, because something holds the interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

VARIABLE = "GANGLINE_STACKS"
"""Where the files are: what is behind it is the number of the process."""
STALLED_VARIABLE = "GANGLINE_STALLED_SECONDS"
"""How long a program may show no sign of life; set where it has to watch itself."""
SIGNAL_OFFSET = 9
"""Of the real-time signals, one that nothing else is known to use."""
_HEADING = "gangline: no sign of life for {seconds:.1f} s; where it is (most recent call first):"
_BEGIN = re.compile(r"gangline: no sign of life for (?P<seconds>[\d.]+) s;|Timeout \((\d+):(\d\d):(\d\d(?:\.\d+)?)\)!")
_OWN_LINE = re.compile(rf'{_BEGIN.pattern}|(Current t|T)hread |\s+File "|\s+\.\.\.|$')
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<name>\S+)')
_IDLE_SHARE = 0.01
_SILENT_SHARE, _STUCK_SHARE = 0.8, 0.9
"""Of the time that is allowed: when stacks are written, and when they are though the interpreter is held."""
_LOOKS = 8
_THREAD = "gangline stacks"
_CPU_FILE = Path("/sys/fs/cgroup/cpu.stat")


def offer() -> None:
    """Answer the engine's signal, or watch, from now on; outside a job nothing happens."""
    prefix = os.environ.get(VARIABLE)
    number = getattr(signal, "SIGRTMIN", None)
    if prefix and number is not None:
        path = Path(f"{prefix}.{os.getpid()}")
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            # Kept open: a program that hangs may be unable to open anything.
            file = path.open("w", encoding="utf-8")
            faulthandler.register(number + SIGNAL_OFFSET, file=file, all_threads=True, chain=False)
            atexit.register(path.unlink, missing_ok=True)
    with contextlib.suppress(ValueError, RuntimeError):
        seconds = float(os.environ.get(STALLED_VARIABLE) or 0)
        if seconds > 0:
            _arm(seconds)  # here, for a program may hold the interpreter before the thread has its first turn
            threading.Thread(target=_watch, args=(seconds,), name=_THREAD, daemon=True).start()


def reported(step: int | None) -> None:
    """Take note that the program has reported something: the same step once more does not show that it lives."""
    if step is None or step != _last.step:
        _last.step, _last.at = step if step is not None else _last.step, time.monotonic()


class _Last:
    """The last sign of life."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.step: int | None = None


_last = _Last()


def _watch(seconds: float) -> None:
    """Look again and again, and write the stacks once for every silence."""
    used, told_at = _cpu_seconds(), 0.0
    seen_at = _last.at = time.monotonic()
    while True:
        _arm(seconds)
        time.sleep(seconds / _LOOKS)
        now, before, used = time.monotonic(), used, _cpu_seconds()
        if _last.step is None and used - before > _IDLE_SHARE * (now - seen_at):
            _last.at = now  # of a program that reports steps, processor time is no sign: it may spin
        seen_at = now
        if now - _last.at >= seconds * _SILENT_SHARE and told_at < _last.at:
            if _last.step is None and _gpu_busy():
                _last.at = now
                continue
            told_at = now
            _tell(now - _last.at)


def _arm(seconds: float) -> None:
    """Have the stacks written unless this is called again in time: by a thread that needs no interpreter."""
    with contextlib.suppress(OSError, RuntimeError, ValueError, AttributeError):
        faulthandler.dump_traceback_later(seconds * _STUCK_SHARE, file=2)


def _cpu_seconds() -> float:
    """The processor time of the whole container where that is told, for data loaders count too; else our own."""
    with contextlib.suppress(OSError, ValueError):
        name, _, usage = _CPU_FILE.read_text(encoding="ascii").partition("\n")[0].partition(" ")
        if name == "usage_usec":
            return int(usage) / 1e6
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _gpu_busy() -> bool:
    import shutil  # neither is needed before a program falls silent, and every program imports this module
    import subprocess

    tool = shutil.which("nvidia-smi")
    if tool is None:
        return False
    query = [tool, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return any(line.strip().isdigit() and int(line) > 0 for line in said.splitlines())


def _tell(seconds: float) -> None:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    known = sys._current_frames()  # noqa: SLF001  # documented, and the only way to the stacks of other threads
    frames = {ident: frame for ident, frame in known.items() if names.get(ident) != _THREAD}
    lines = [_HEADING.format(seconds=seconds)]
    for ident in sorted(frames, key=lambda each: each != main):
        lines.append(f"{'Current thread' if ident == main else 'Thread'} {names.get(ident, ident)}:")
        frame: FrameType | None = frames[ident]
        while frame is not None:
            code = frame.f_code
            lines.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}')
            frame = frame.f_back
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.write(2, ("\n".join(lines) + "\n").encode(errors="replace"))


def silence(text: str) -> float | None:
    """Return for how long a program had been silent when it wrote this line; None if no stacks begin with it."""
    found = _BEGIN.match(text)
    if found is None:
        return None
    if found["seconds"] is not None:
        return float(found["seconds"])
    hours, minutes, seconds = found.groups()[1:]
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def is_own_line(text: str) -> bool:
    """Whether a line of output belongs to stacks that were written, and is not the program's own."""
    return _OWN_LINE.match(text) is not None


def innermost(text: str) -> str:
    """Return the line of code where a program is: the innermost call of the thread that was asked, else of the oldest.

    ``faulthandler`` lists the oldest thread, which is the main one, last.
    """
    begin = text.rfind("Current thread")
    found = _FRAME.search(text[begin if begin >= 0 else max(text.rfind("Thread 0x"), 0) :])
    return f"{Path(found['file']).name}:{found['line']} {found['name']}" if found else ""
