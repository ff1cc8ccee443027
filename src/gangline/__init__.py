"""Gangline trains deep-learning models on many machines.

``run`` submits a function, ``Job`` describes a job, the decorator ``job`` makes a function one. ``Client`` speaks to a
service, ``AsyncClient`` is awaited; ``load`` reads a job file, ``errors`` holds everything that may be raised. These
names are the promise; everything else may change. They are imported when first used, because every start of the
command line and of a job's own code passes through here.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline import errors
    from gangline.sdk import Client, load
    from gangline.sdk.asynchronous import AsyncClient
    from gangline.sdk.running import Job, job, run

__version__ = "0.1.0"

__all__ = ["AsyncClient", "Client", "Job", "__version__", "errors", "job", "load", "run"]

_HOMES = {
    "AsyncClient": "gangline.sdk.asynchronous",
    "Client": "gangline.sdk",
    "Job": "gangline.sdk.running",
    "job": "gangline.sdk.running",
    "load": "gangline.sdk",
    "run": "gangline.sdk.running",
}


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("gangline.errors")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gangline' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
