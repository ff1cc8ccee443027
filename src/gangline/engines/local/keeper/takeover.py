"""What a keeper does first: end what an earlier keeper of the same attempt left running, and say that it is lost."""

from __future__ import annotations

import os
import time

from . import launch
from .records import AttemptRecord, Stage, Status, boot_id
from .system import cgroups, processes

LEFTOVER_SECONDS = 10.0
"""How long killed processes may take to disappear."""


def take_over(record: AttemptRecord, token: str) -> None:
    """Make the record this keeper's own. Nobody can see the processes of an earlier one exit: they are ended."""
    same_boot = record.boot == boot_id()
    if same_boot and record.keeper_pid != os.getpid():
        _kill_leftovers(record, token)
    for entry in record.replicas.values():
        if entry.status not in (Status.STARTING, Status.RUNNING):
            continue
        entry.lose("its keeper was killed" if same_boot else "the machine was restarted")
        if entry.cgroup is not None:
            cgroups.remove(entry.cgroup)
            entry.cgroup = None
    if record.outputs is Stage.RUNNING:
        record.outputs = Stage.NONE
    record.boot = boot_id()
    record.keeper_pid = os.getpid()


def _kill_leftovers(record: AttemptRecord, token: str) -> None:
    """Look again after each round: what was being started while we looked is found by the next."""
    prefix = f"{launch.MARKER}={token}:".encode()
    deadline = time.monotonic() + LEFTOVER_SECONDS
    while time.monotonic() < deadline:
        groups = [entry.cgroup for entry in record.replicas.values() if entry.cgroup is not None]
        found = {pid for group in groups for pid in cgroups.members(group)}
        found.update(pid for pid in processes.everyone() if processes.begins_with(pid, prefix))
        living = [pid for pid in found if processes.alive(pid)]
        if not living:
            return
        processes.kill_and_wait(living, deadline - time.monotonic())
