"""A program that nobody may send a signal writes its own stacks when it falls silent."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gangline.runtime.stacks import innermost, is_own_line

BEGIN = """
import re, sys, time
from pathlib import Path
import gangline.runtime as runtime
from gangline.runtime import stacks
stacks._CPU_FILE = Path("/nowhere")  # of this machine it would be everybody's
"""
PROGRAMS = {
    "sleeps": ("def sleeps():\n    time.sleep(60)\nsleeps()", "<string>:8 sleeps"),
    "spins after a step": (
        "runtime.report(step=1, x=1)\ndef spins():\n    while True: pass\nspins()",
        "<string>:9 spins",
    ),
    "holds the interpreter": (
        "def holds(pattern):\n    pattern.match('a' * 60 + 'b')\nholds(re.compile(r'(a+)+$'))",
        "<string>:8 holds",
    ),
}
QUIET = {
    "busy": "while True: pass",
    "steps": "for step in range(10**6):\n    runtime.report(step=step, x=1)\n    time.sleep(0.05)",
}


def said(file: Path, program: str, seconds: float, wanted: str = "") -> str:
    """Return what a program wrote until it said what is wanted, or the time was over."""
    environment = {**os.environ, "GANGLINE_STALLED_SECONDS": "1.5", "GANGLINE_METRICS": "/dev/null"}
    with file.open("w") as output:
        process = subprocess.Popen([sys.executable, "-c", BEGIN + program], env=environment, stderr=output)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline and not (wanted and wanted in innermost(file.read_text())):
            time.sleep(0.05)  # noqa: TID251  # another process, which sends no event
    finally:
        process.kill()
        process.wait()
    return file.read_text()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_silent_program_says_where_it_is(tmp_path: Path, name: str) -> None:
    program, place = PROGRAMS[name]
    text = said(tmp_path / "output", program, 30.0, place)
    assert innermost(text) == place
    assert all(is_own_line(line) for line in text.splitlines()), text


@pytest.mark.parametrize("name", QUIET)
def test_a_program_that_is_busy_or_steps_says_nothing(tmp_path: Path, name: str) -> None:
    assert said(tmp_path / "output", QUIET[name], 4.0) == ""
