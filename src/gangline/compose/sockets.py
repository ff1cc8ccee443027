"""Sockets and directories that only one user may enter; both services of a user's own machine live behind them."""

import asyncio
import contextlib
import logging
import os
from pathlib import Path

from aiohttp import web

from gangline.errors import GanglineError, PermissionDeniedError

_LOOK_SECONDS = 1.0

_log = logging.getLogger(__name__)


def private_directory(path: Path) -> None:
    """Make a directory only its owner may enter; one that somebody else made in its place is refused."""
    for directory in (path.parent, path):
        if directory == path or str(directory).startswith("/tmp/gangline-"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if directory.stat().st_uid != os.getuid():
                raise PermissionDeniedError(f"{directory} belongs to somebody else; set GANGLINE_RUNTIME_DIRECTORY")
    path.chmod(0o700)


async def listen(runner: web.AppRunner, path: Path) -> web.UnixSite:
    """Listen on the socket; one that a killed service left behind is replaced, which is safe under the lock."""
    remove(path)
    site = web.UnixSite(runner, str(path))
    try:
        await site.start()
    except OSError as error:
        hint = "set GANGLINE_RUNTIME_DIRECTORY to a shorter path"
        raise GanglineError(f"cannot listen on {path}: {error}; {hint}") from error
    return site


async def keep_listening(site: web.UnixSite | None, runner: web.AppRunner, path: Path) -> None:
    """Listen again whenever the socket is gone: systems remove a user's runtime directory when the user logs out."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if _exists(path):
            continue
        if site is not None:
            await site.stop()
            site = None
        with contextlib.suppress(OSError, GanglineError):  # there is no place until the user is back
            private_directory(path.parent)
            site = await listen(runner, path)
            _log.info("serving on %s again", path)


def _exists(path: Path) -> bool:
    return path.exists()


def remove(path: Path) -> None:
    """Remove a socket; one that is gone already is not an error."""
    path.unlink(missing_ok=True)
