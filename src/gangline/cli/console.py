"""This process's own standard streams as the console of a command that runs elsewhere.

Standard input is read by a thread: it may be a file, a pipe or a terminal, and no event loop can wait for all of them.
"""

import asyncio
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK = 32 * 1024


class StandardConsole:
    """What somebody types here, and where they see what comes back."""

    def __init__(self) -> None:
        self._typed: asyncio.Queue[bytes] = asyncio.Queue()
        self._resized = asyncio.Event()
        self._resized.set()
        loop = asyncio.get_running_loop()
        # A daemon: it may wait for a key that nobody presses when all is over.
        threading.Thread(target=self._listen, args=(loop,), daemon=True).start()
        if sys.stdin.isatty():
            loop.add_signal_handler(signal.SIGWINCH, self._resized.set)

    async def read(self) -> bytes:
        """Return what was typed next; see Console."""
        return await self._typed.get()

    async def write(self, data: bytes, *, error: bool) -> None:
        """Show what the command wrote; see Console."""
        stream = sys.stderr.buffer if error else sys.stdout.buffer
        stream.write(data)
        stream.flush()

    async def size(self) -> tuple[int, int]:
        """Return the size of the terminal, when it has changed; see Console."""
        await self._resized.wait()
        self._resized.clear()
        return shutil.get_terminal_size()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        typed = b"before the first"
        while typed:
            try:
                typed = os.read(sys.stdin.fileno(), _CHUNK)
            except OSError:
                typed = b""  # a background process of a terminal may not read it
            try:
                loop.call_soon_threadsafe(self._typed.put_nowait, typed)
            except RuntimeError:
                return  # the command is over, and the loop with it


@contextmanager
def every_key(*, terminal: bool) -> Iterator[None]:
    """Hand every key on as it is pressed, Ctrl-C too: it is meant for the program at the other end."""
    if not terminal:
        yield
        return
    import termios  # only Unix has terminals like these
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin, termios.TCSADRAIN)  # what was typed before is kept
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
