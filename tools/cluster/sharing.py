"""Lets the processes of one test run share a cluster, and cleans up after runs that died.

The first to ask starts the cluster, the last to leave takes it down. Holders are recorded with their start time, so
that a process id given to somebody else does not keep a cluster alive.
"""

import os
from contextlib import AbstractContextManager

from tools.cluster import host
from tools.cluster.build import Report, exclusive
from tools.cluster.cluster import Cluster
from tools.cluster.layout import NODES, cache_folder, saved_layouts
from tools.cluster.processes import start_time

PREFIX = "test-"


def acquire(run: str, report: Report) -> Cluster:
    """Return the cluster of a test run, started if this is the first to ask."""
    host.prepare(report, nodes=NODES)  # first of all: whoever may not start a cluster cannot take one down either
    with _lock():
        _take_down_abandoned(report)
        cluster = Cluster.up(PREFIX + run, report)
        holders = cluster.layout.folder / "holders"
        holders.mkdir(exist_ok=True)
        (holders / _identity(os.getpid())).touch()
        return cluster


def release(cluster: Cluster) -> bool:
    """Let go of the cluster; the last holder takes it down, which the answer tells."""
    with _lock():
        (cluster.layout.folder / "holders" / _identity(os.getpid())).unlink(missing_ok=True)
        if _held(cluster):
            return False
        cluster.down()
        return True


def reap(report: Report) -> None:
    """Take down the clusters of runs that died."""
    if os.geteuid() == 0 and any(layout.name.startswith(PREFIX) for layout in saved_layouts()):
        with _lock():
            _take_down_abandoned(report)


def _take_down_abandoned(report: Report) -> None:
    for layout in saved_layouts():
        cluster = Cluster(layout)
        if layout.name.startswith(PREFIX) and not _held(cluster):
            report(f"taking down {layout.name}, left behind by a test run that died")
            cluster.down()


def _held(cluster: Cluster) -> bool:
    holders = cluster.layout.folder / "holders"
    names = [file.name for file in holders.iterdir()] if holders.is_dir() else []
    return any(name == _identity(int(name.partition("-")[0])) for name in names)


def _identity(pid: int) -> str:
    return f"{pid}-{start_time(pid)}"


def _lock() -> AbstractContextManager[None]:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return exclusive(folder / "sharing.lock")
