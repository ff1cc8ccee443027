"""A shell beside a process, on a real terminal."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.engines.local.watch.terminal import converse

PATIENCE = 60
USER = 64123
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "WORD": "<of the replica>", "PS1": "", "PYTHONPATH": "/nowhere", "HOME": "/"}


class Typist:
    """Types one line, and the next when something was shown."""

    def __init__(self, *lines: tuple[str, str]) -> None:
        self.shown = bytearray()
        self._lines = list(lines)
        self._news = asyncio.Event()
        self._told = False

    async def read(self) -> bytes:
        if not self._lines:
            await asyncio.Event().wait()
        line, self._after = self._lines.pop(0)
        while self._after.encode() not in self.shown:
            self._news.clear()
            await self._news.wait()
        return line.encode() + b"\n"

    async def write(self, data: bytes, *, error: bool) -> None:
        self.shown += data
        self._news.set()

    async def size(self) -> tuple[int, int]:
        if self._told:
            await asyncio.Event().wait()
        self._told = True
        return 111, 33


@pytest.fixture
async def replica() -> AsyncIterator[Process]:
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)", cwd="/usr")
    yield program
    if program.returncode is None:
        program.kill()
    await program.wait()


async def test_a_shell_is_where_the_replica_is_and_its_exit_code_comes_back(replica: Process) -> None:
    typist = Typist(("echo $WORD $(pwd) $(tty | cut -c1-9); echo ready", ""), ("stty size; exit 7", "\r\nready"))
    code = await asyncio.wait_for(converse(replica.pid, None, None, ENVIRONMENT, typist), PATIENCE)
    assert code == 7
    said = typist.shown.decode()
    assert "<of the replica> /usr /dev/pts/" in said
    assert "33 111" in said


async def test_much_output_waits_for_whoever_reads_it(replica: Process) -> None:
    typist = Typist(("head -c 3000000 /dev/zero | tr '\\0' x; exit", ""))
    assert await asyncio.wait_for(converse(replica.pid, None, None, ENVIRONMENT, typist), PATIENCE) == 0
    assert typist.shown.count(b"x") >= 3_000_000


async def test_a_shell_ends_with_the_replica(replica: Process) -> None:
    typist = Typist(("echo begun; sleep 600", ""))
    talking = asyncio.create_task(converse(replica.pid, None, None, ENVIRONMENT, typist))
    async with asyncio.timeout(PATIENCE):
        while not typist.shown.count(b"begun") > 1:
            typist._news.clear()
            await typist._news.wait()
        replica.kill()
        assert await talking < 0


async def test_a_shell_ends_with_the_person(replica: Process) -> None:
    typist = Typist(("echo begun $$", ""))
    talking = asyncio.create_task(converse(replica.pid, None, None, ENVIRONMENT, typist))
    async with asyncio.timeout(PATIENCE):
        while not typist.shown.count(b"begun") > 1:
            typist._news.clear()
            await typist._news.wait()
        talking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talking


def mounts_of(pid: int) -> Path:
    return Path(f"/proc/{pid}/ns/mnt").readlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs as another user")
async def test_a_shell_is_the_replicas_user_and_sees_its_mounts() -> None:
    become = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
    program = await asyncio.create_subprocess_exec(
        "unshare", "--mount", *become, "sh", "-c", "echo ready; exec sleep 600", cwd="/usr", stdout=PIPE
    )
    try:
        assert program.stdout is not None
        await asyncio.wait_for(program.stdout.readline(), PATIENCE)
        mounts = mounts_of(program.pid)
        assert mounts != mounts_of(os.getpid())
        asked = "echo $(id -u):$(id -G):$(readlink /proc/self/ns/mnt):$(grep NoNewPrivs /proc/self/status | tr -dc 0-9)"
        typist = Typist((f"{asked}; exit", ""))
        await asyncio.wait_for(converse(program.pid, None, USER, ENVIRONMENT, typist), PATIENCE)
    finally:
        program.kill()
        await program.wait()
    assert f"{USER}:{USER}:{mounts}:1" in typist.shown.decode()
