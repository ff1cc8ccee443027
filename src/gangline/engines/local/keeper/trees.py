"""Removing what a job left, whatever it did to its directories: read-only ones, and ones that nobody may enter."""
# ruff: noqa: PTH101, PTH114, PTH118  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import os


def remove_tree(folder: str) -> None:
    """Remove a directory and all below it; raises OSError for what even its owner cannot remove."""
    # Imported here because it loads compression libraries: a start should not pay for what only the end needs.
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    os.chmod(folder, 0o700)
    for place, names, _ in os.walk(folder):
        # Before the walk enters them. A link is left alone: what it leads to is not the job's.
        for path in (os.path.join(place, name) for name in names):
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder)
