"""Gangline trains deep-learning models on many machines.

``Client`` speaks to a service, ``load`` reads a job file, ``errors`` holds everything that may be raised. These
names are the promise; everything else may change. They are imported when first used, because every start of the
command line and of a job's own code passes through here.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline import errors
    from gangline.sdk import Client, load

__version__ = "0.1.0"

__all__ = ["Client", "__version__", "errors", "load"]

_HOMES = {"Client": "gangline.sdk", "load": "gangline.sdk"}


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("gangline.errors")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gangline' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
