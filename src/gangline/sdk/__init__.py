"""Gangline for programs: ``Client`` has the same verbs as the command line and raises the errors of the platform.

A client speaks HTTP to a service: the user's own background service (started when needed), one at a given
address, or one that lives inside this very process. Nothing here decides or keeps anything about jobs. What reads files
is imported when first used: most commands read none, and the dialects are slow to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from gangline.model import (
    Ahead,
    Excluded,
    Explanation,
    JournalRecord,
    LogLine,
    NodeUsage,
    PlaceInLine,
    ReplicaUsage,
    Usage,
)
from gangline.model.kinds.sweep import SweepStatus, TrialStatus
from gangline.sdk.client import Client
from gangline.sdk.values import JobTop, Metrics, NodeTop
from gangline.wire import Change

if TYPE_CHECKING:
    from gangline.sdk.loading import load, load_sweep

__all__ = [
    "Ahead",
    "Change",
    "Client",
    "Excluded",
    "Explanation",
    "JobTop",
    "JournalRecord",
    "LogLine",
    "Metrics",
    "NodeTop",
    "NodeUsage",
    "PlaceInLine",
    "ReplicaUsage",
    "SweepStatus",
    "TrialStatus",
    "Usage",
    "load",
    "load_sweep",
]

_LOADING = frozenset({"load", "load_sweep"})


def __getattr__(name: str) -> object:
    if name in _LOADING:
        return getattr(import_module("gangline.sdk.loading"), name)
    raise AttributeError(f"module 'gangline.sdk' has no attribute '{name}'")
