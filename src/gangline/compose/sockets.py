"""Sockets and directories that only one user may enter; both services of a user's own machine live behind them."""

import os
from pathlib import Path

from aiohttp import web

from gangline.errors import GanglineError, PermissionDeniedError


def private_directory(path: Path) -> None:
    """Make a directory only its owner may enter; one that somebody else made in its place is refused."""
    for directory in (path.parent, path):
        if directory == path or str(directory).startswith("/tmp/gangline-"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if directory.stat().st_uid != os.getuid():
                raise PermissionDeniedError(f"{directory} belongs to somebody else; set GANGLINE_RUNTIME_DIRECTORY")
    path.chmod(0o700)


async def listen(runner: web.AppRunner, path: Path) -> None:
    """Listen on the socket; one that a killed service left behind is replaced, which is safe under the lock."""
    remove(path)
    try:
        await web.UnixSite(runner, str(path)).start()
    except OSError as error:
        hint = "set GANGLINE_RUNTIME_DIRECTORY to a shorter path"
        raise GanglineError(f"cannot listen on {path}: {error}; {hint}") from error


def remove(path: Path) -> None:
    """Remove a socket; one that is gone already is no error."""
    path.unlink(missing_ok=True)
