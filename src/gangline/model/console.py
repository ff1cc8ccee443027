"""A person's side of a terminal, whoever is at the other end."""

from typing import Protocol


class Console(Protocol):
    """A person's side of a command that runs elsewhere."""

    async def read(self) -> bytes:
        """Return what was typed next; nothing at the end of the input."""
        ...

    async def write(self, data: bytes, *, error: bool) -> None:
        """Show what the command wrote; returns when more may come."""
        ...

    async def size(self) -> tuple[int, int]:
        """Return the width and height of the terminal: at first as it is, then after each change."""
        ...
