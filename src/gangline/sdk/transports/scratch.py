"""A temporary directory that belongs to one process: what it forks leaves it alone."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class Scratch:
    """Removed when told so, at the latest when the program ends.

    Unlike tempfile's directory it outlives a forked child that ends as a program does; a service still works in it.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="gangline-"))
        self._finish = weakref.finalize(self, _remove, self.path, os.getpid())

    def remove(self) -> None:
        """Remove the directory and all it holds; more than once does no harm."""
        self._finish()


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
