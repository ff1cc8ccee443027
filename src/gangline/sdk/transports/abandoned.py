"""Ends what a program with an embedded service ran, although the program was killed.

A shell waits at a pipe whose other end only the program has. Told to, it goes; if the program ends without a word, it
becomes this module, which serves the program's temporary home once more, to end its jobs and remove it:

    python -P -m gangline.sdk.transports.abandoned DIRECTORY
"""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from gangline.errors import ConflictError
from gangline.sdk.client import Client

_WAIT = 'exec 3<&0; { read -r word <&3 || exec "$0" -P -m gangline.sdk.transports.abandoned "$1"; } &'


class ExitWatcher:
    """The one who waits: a shell, which costs next to nothing, and no child of the program, which may count its own."""

    def __init__(self, directory: Path) -> None:
        reading, writing = os.pipe()
        self._word = os.fdopen(writing, "wb", buffering=0)
        try:
            subprocess.run(
                ["/bin/sh", "-c", _WAIT, sys.executable, str(directory)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                check=True,
            )
        finally:
            os.close(reading)

    def dismiss(self) -> None:
        """There is nothing left to do; more than once does no harm."""
        if not self._word.closed:
            with self._word, suppress(BrokenPipeError):  # somebody ended it
                self._word.write(b"done\n")


def main() -> None:
    """End what the directory's service ran, and remove the directory."""
    directory = Path(sys.argv[1])
    if (directory / "home").is_dir():
        try:
            with Client.embedded(home=directory / "home") as client:
                client._delete_everything()  # noqa: SLF001  # no verb for users: it spares nobody
        except ConflictError:
            return  # the program lives after all, and has closed a pipe that it did not know
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
