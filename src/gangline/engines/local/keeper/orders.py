"""What the engine wants, as the keeper reads it from ``order.json``. The engine's side of it is ``wire.Order``."""
# ruff: noqa: PTH123  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import json


class ReplicaOrder:
    """One replica as it should be."""

    __slots__ = (
        "address",
        "command",
        "cpus",
        "directory",
        "environment",
        "incarnation",
        "memory_mib",
        "name",
        "started",
    )

    def __init__(
        self,
        *,
        name: str,
        incarnation: int,
        started: bool,
        command: list[str],
        environment: dict[str, str],
        cpus: list[int],
        memory_mib: int,
        address: str,
        directory: str | None = None,
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.started = started
        self.command = command
        self.environment = environment
        self.cpus = cpus
        self.memory_mib = memory_mib
        self.address = address
        self.directory = directory


class Order:
    """The whole order of one attempt."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            fields = json.loads(file.read())
        self.token: str = fields["token"]
        self.active_marker: str = fields["active_marker"]
        self.grace_seconds: float = fields["grace_seconds"]
        self.log_file_bytes: int = fields["log_file_bytes"]
        self.log_files: int = fields["log_files"]
        self.use_cgroups: bool = fields["use_cgroups"]
        self.most_processes: int = fields.get("most_processes", 0)
        self.code_archive: str | None = fields["code_archive"]
        # An order of an earlier version knows no limits.
        self.code_limits: list[int] = fields.get("code_limits") or []
        self.inputs: list[list[str]] = fields["inputs"]
        self.outputs: list[list[str]] = fields["outputs"]
        self.receipts: str = fields["receipts"]
        # The engine notes more of each replica than the keeper needs.
        self.replicas = {
            entry["name"]: ReplicaOrder(**{name: entry.get(name) for name in ReplicaOrder.__slots__})
            for entry in fields["replicas"]
        }
