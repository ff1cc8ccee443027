"""How the cluster's processes are kept; needs no cluster."""

import json
import os
from pathlib import Path
from signal import SIGSTOP, SIGTERM

import pytest

from tools.cluster.errors import ClusterError
from tools.cluster.processes import Processes, wait_until

SHELL = "/bin/sh"


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def test_a_process_is_found_by_another_run_and_stopped(tmp_path: Path, processes: Processes) -> None:
    record = processes.start("sleeper", ["/bin/sleep", "600"])
    later = Processes(tmp_path)
    assert later.find("sleeper") == record
    later.stop("sleeper", SIGTERM)
    assert not record.alive
    later.stop("sleeper")  # once more does nothing


def test_a_process_that_does_not_heed_is_killed(processes: Processes) -> None:
    record = processes.start("deaf", ["/bin/sleep", "600"])
    processes.signal("deaf", SIGSTOP)
    processes.stop("deaf", SIGTERM, seconds=0.2)
    assert not record.alive


def test_a_number_given_to_somebody_else_is_not_signalled(tmp_path: Path, processes: Processes) -> None:
    (tmp_path / "processes").mkdir()
    stale = {"pid": os.getpid(), "started": 1, "command": ["/bin/sleep", "600"]}
    (tmp_path / "processes" / "old").write_text(json.dumps(stale), encoding="utf-8")
    processes.stop("old")
    with pytest.raises(ClusterError, match="does not run"):
        processes.signal("old", SIGTERM)


def test_an_unexpected_end_shows_the_log(processes: Processes) -> None:
    record = processes.start("fails", [SHELL, "-c", "echo the disk is full >&2; exit 1"])
    assert wait_until(lambda: not record.alive, seconds=60)
    with pytest.raises(ClusterError, match="fails ended; the end of its log:\nthe disk is full"):
        processes.check_alive()


def test_what_runs_is_not_started_twice(processes: Processes) -> None:
    processes.start("sleeper", ["/bin/sleep", "600"])
    try:
        with pytest.raises(ClusterError, match="runs already"):
            processes.start("sleeper", ["/bin/sleep", "600"])
    finally:
        processes.stop("sleeper")
