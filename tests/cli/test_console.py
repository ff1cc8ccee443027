"""The console of a command that runs elsewhere: this process's own streams."""

import asyncio
import io
import os
import pty
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.cli.console import StandardConsole, every_key


class Streams(io.TextIOWrapper):
    """A standard input that is this file."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(os.fdopen(descriptor, "rb", buffering=0))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input; yields the end at which somebody types."""
    typing, screen = pty.openpty()
    with Streams(screen) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        yield typing
    os.close(typing)


async def test_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"first\nsecond")
    with Streams(os.open(tmp_path / "input", os.O_RDONLY)) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        console = StandardConsole()
        async with asyncio.timeout(60):
            assert [await console.read(), await console.read()] == [b"first\nsecond", b""]


async def test_a_terminal_hands_every_key_on_and_is_left_as_it_was(terminal: int) -> None:
    before = termios.tcgetattr(sys.stdin)
    os.write(terminal, b"early")
    with every_key(terminal=True):
        console = StandardConsole()
        async with asyncio.timeout(60):
            typed = await console.read()
            os.write(terminal, b"\x03")
            while not typed.endswith(b"\x03"):
                typed += await console.read()
            assert typed == b"early\x03", "what was typed before counts, and Ctrl-C is a key like any other"
    assert termios.tcgetattr(sys.stdin) == before
