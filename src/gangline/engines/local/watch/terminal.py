"""Carries what is typed to a shell beside a replica, and what it writes back."""

import asyncio
import fcntl
import json
import os
import signal
import struct
import sys
import termios
from contextlib import suppress

from gangline.model.console import Console

_CHUNK = 1 << 14
_LAST_SECONDS = 2.0
_MOST_CELLS = 1000


async def converse(pid: int, group: str | None, user: int | None, environment: dict[str, str], console: Console) -> int:
    """Run a shell where a process runs, until it ends or that process does; return the shell's exit code."""
    ours, theirs = os.openpty()
    if user is not None:
        os.fchown(theirs, user, user)
    helpers: list[asyncio.Task[None]] = []
    shell = await _start(theirs, {"pid": pid, "group": group, "user": user, "environment": environment})
    os.set_blocking(ours, False)
    try:
        helpers = [
            asyncio.create_task(_type(ours, console)),
            asyncio.create_task(_resize(ours, console)),
            asyncio.create_task(_end_with(pid, shell)),
        ]
        await _show(ours, console)
        return await asyncio.wait_for(shell.wait(), _LAST_SECONDS)
    except TimeoutError:
        return -signal.SIGKILL  # it has closed its terminal and goes on
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        os.close(ours)
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        await shell.wait()


async def _start(theirs: int, order: dict[str, object]) -> asyncio.subprocess.Process:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    module = "gangline.engines.local.keeper.terminal"
    try:
        shell = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # nothing is imported from where it starts
            "-m",
            module,
            str(reading),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            pass_fds=(reading,),
        )
        await asyncio.to_thread(_write_order, writing, order)
    finally:
        for descriptor in (reading, writing, theirs):
            os.close(descriptor)
    return shell


def _write_order(writing: int, order: dict[str, object]) -> None:
    """More than a pipe holds: whoever reads it may be slow to start."""
    with os.fdopen(writing, "wb", closefd=False) as file:
        file.write(json.dumps(order).encode())


async def _show(ours: int, console: Console) -> None:
    """Show what is written until the last process has closed the terminal."""
    while True:
        await _possible(ours, writing=False)
        try:
            data = os.read(ours, _CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            return
        if not data:
            return
        await console.write(data, error=False)


async def _type(ours: int, console: Console) -> None:
    while typed := await console.read():
        while typed:
            await _possible(ours, writing=True)
            with suppress(BlockingIOError):
                typed = typed[os.write(ours, typed) :]


async def _possible(descriptor: int, *, writing: bool) -> None:
    """Wait until a descriptor can be read, or written to."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


async def _resize(ours: int, console: Console) -> None:
    while True:
        width, height = (max(1, min(each, _MOST_CELLS)) for each in await console.size())
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


async def _end_with(pid: int, shell: asyncio.subprocess.Process) -> None:
    """A shell does not outlive the replica: its machine may be another's by then."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            await _possible(process, writing=False)
        finally:
            os.close(process)
    with suppress(ProcessLookupError):
        os.killpg(shell.pid, signal.SIGKILL)
