"""Removing what a job left, whatever it did to its directories: read-only ones, and ones that nobody may enter."""
# ruff: noqa: PTH101  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import os


def remove_tree(folder: str) -> None:
    """Remove a directory and all below it; raises OSError for what even its owner cannot remove."""
    # Imported here because it loads compression libraries: a start should not pay for what only the end needs.
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    _open_up(folder, None)
    shutil.rmtree(folder)


def _open_up(name: str, parent: int | None) -> None:
    """Let a directory and all below it be entered. Links are not followed, even if somebody makes one meanwhile."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        place = f"/proc/self/fd/{handle}"
        os.chmod(place, 0o700)
        for entry in os.scandir(place):
            if entry.is_dir(follow_symlinks=False):
                _open_up(entry.name, handle)
    finally:
        os.close(handle)
