"""Checks that are programs: whatever they say, leave behind or never end with, an answer comes back."""

import asyncio
import os
import sys
from pathlib import Path

from gangline.engines.local.watch.checking import check_replica
from gangline.engines.local.wire import ReplicaOrder
from gangline.model.kinds.service import Check


def order(directory: Path) -> ReplicaOrder:
    return ReplicaOrder(
        name="server-0",
        incarnation=0,
        started=True,
        command=[],
        environment=dict(os.environ),
        directory=str(directory),
        node="n1",
        cpus=[],
        cpu_millis=0,
        memory_mib=0,
        gpu_millis={},
        address="",
    )


def program(text: str, seconds: float = 60) -> Check:
    return Check(exec=(sys.executable, "-c", text), timeout_seconds=seconds)


async def test_the_end_of_what_a_program_says_is_told(tmp_path: Path) -> None:
    talkative = program("import sys; sys.stderr.write('x' * 1_000_000 + ' not today'); sys.exit(3)")
    refusal = await check_replica(talkative, order(tmp_path))
    assert "exited with 3" in refusal
    assert refusal.endswith("x not today")
    assert len(refusal) < 400


async def test_a_check_does_not_wait_for_what_it_leaves_behind(tmp_path: Path) -> None:
    """Those keep its output open, and would be as many as there are checks."""
    leaving = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("child", "w").write(str(child.pid))
"""
    assert await check_replica(program(leaving), order(tmp_path)) == ""
    await until_dead(int((tmp_path / "child").read_text()))


async def test_a_check_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    hanging = "import os, time; open('self', 'w').write(str(os.getpid())); time.sleep(600)"
    refusal = await check_replica(program(hanging, seconds=3), order(tmp_path))
    assert refusal == "no answer within 3 s"
    if text := (tmp_path / "self").read_text() if (tmp_path / "self").exists() else "":
        await until_dead(int(text))


async def until_dead(pid: int) -> None:
    async with asyncio.timeout(60):
        while is_running(pid):  # noqa: ASYNC110  # nothing tells of the end of a stranger
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process does anything; one that is dead and not yet collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
