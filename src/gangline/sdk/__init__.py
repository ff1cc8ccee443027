"""Gangline for programs: ``Client`` has the same verbs as the command line and raises the errors of the platform.

A client speaks HTTP to a service: the user's own background service (started when needed), one at a given
address, or one that lives inside this very process. Nothing here decides or keeps anything about jobs.
"""

from gangline.sdk.client import Client
from gangline.sdk.loading import load, load_sweep
from gangline.sdk.sweeps import SweepStatus, TrialStatus
from gangline.sdk.values import (
    Change,
    Excluded,
    Explanation,
    JobTop,
    JournalRecord,
    LogLine,
    NodeTop,
    NodeUsage,
    ReplicaUsage,
    Usage,
)

__all__ = [
    "Change",
    "Client",
    "Excluded",
    "Explanation",
    "JobTop",
    "JournalRecord",
    "LogLine",
    "NodeTop",
    "NodeUsage",
    "ReplicaUsage",
    "SweepStatus",
    "TrialStatus",
    "Usage",
    "load",
    "load_sweep",
]
