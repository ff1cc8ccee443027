"""Run by tests/sdk/test_other_systems.py: what only Linux has is taken away, then the client half is used.

The standard library and packages of others keep what they have: elsewhere they have something else in its place.
"""

import asyncio  # noqa: F401  # needs fcntl itself, here
import importlib.abc
import os
import pathlib
import pkgutil
import signal
import socket
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
from collections.abc import Sequence
from types import ModuleType

import aiohttp  # noqa: F401
import click  # noqa: F401

MODULES = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp")
NAMES = (
    (socket, ("SO_PEERCRED",)),
    (os, ("pidfd_open", "getuid", "geteuid", "register_at_fork", "sched_getaffinity")),
    (signal, ("pidfd_send_signal", "SIGRTMIN", "SIGWINCH", "SIGHUP")),
)
LINUX = ("gangline.sdk.transports.embedded",)
"""What is a whole service, and says so by its name."""


class Gone(importlib.abc.MetaPathFinder):
    """Finds none of these modules."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def take_away() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Gone())
    for module, names in NAMES:
        for name in names:
            vars(module).pop(name, None)
    opened = pathlib.Path.open

    def without_proc(self: pathlib.Path, *words: object, **options: object) -> object:
        if str(self).startswith("/proc"):
            raise FileNotFoundError(str(self))
        return opened(self, *words, **options)  # type: ignore[call-overload]

    pathlib.Path.open = without_proc  # type: ignore[method-assign]


def import_all() -> list[str]:
    failed = []
    for package in ("gangline.cli", "gangline.sdk", "gangline.wire", "gangline.kinds", "gangline.dialects"):
        folder = importlib.import_module(package)
        for found in pkgutil.walk_packages(folder.__path__, f"{package}."):
            if ".templates" in found.name or found.name in LINUX or found.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(found.name)
            except Exception as error:  # noqa: BLE001  # all that fail are told together
                failed.append(f"{found.name}: {error!r}")
    return failed


take_away()
if sys.argv[1:] == ["import"]:
    print("\n".join(import_all()))
else:
    from gangline.cli.main import main

    sys.exit(main(sys.argv[1:]))
