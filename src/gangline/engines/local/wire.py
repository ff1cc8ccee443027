"""What engine and keeper write for each other: the order one way, the record the other. Checked when it is read.

The keeper reads and writes the same JSON with the standard library alone (``keeper.orders``, ``keeper.records``).
"""

import os
from pathlib import Path

import msgspec

from gangline.engines.local.keeper.records import Stage, Status

ORDER_FILE = "order.json"
RECORD_FILE = "state.json"


class ReplicaOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as it should be, with everything it was given."""

    name: str
    incarnation: int
    started: bool
    command: list[str]
    environment: dict[str, str]
    directory: str | None = None
    """Where the command runs; None: the replica's own working directory."""
    node: str
    cpus: list[int]
    cpu_millis: int
    memory_mib: int
    gpu_millis: dict[str, int]
    """Thousandths of each device, by device id."""
    gpu_slot: int | None = None
    """Replicas of one node with the same number share a device; see GangReplica."""
    address: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What should exist of one attempt."""

    job_id: str
    attempt: int
    token: str
    active_marker: str
    grace_seconds: float
    log_file_bytes: int
    log_files: int
    use_cgroups: bool
    most_processes: int = 0
    """How many processes and threads each replica may have; 0: as many as the system allows."""
    code_archive: str | None
    code_limits: tuple[int, int] | None = None
    """How many bytes, and how many files, the code may be unpacked to."""
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    receipts: str
    replicas: list[ReplicaOrder]

    @property
    def socket_name(self) -> str:
        """The abstract name at which this attempt's keeper listens."""
        return f"gangline/keeper/{self.token}"


class ReplicaRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as its keeper last saw it."""

    name: str
    incarnation: int
    status: Status
    pid: int | None = None
    cgroup: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    message: str = ""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a gang cannot go on."""

    reason: str
    message: str
    permanent: bool
    blameless: bool = False
    at: float


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that a keeper knows of its attempt."""

    boot: str = ""
    keeper_pid: int = 0
    replicas: list[ReplicaRecord] = []
    inputs: Stage = Stage.NONE
    inputs_at: float | None = None
    outputs: Stage = Stage.NONE
    outputs_at: float | None = None
    outputs_note: str = ""
    failure: Failure | None = None
    stopped_at: float | None = None


def write_order(directory: Path, order: Order) -> None:
    """Replace an attempt's order, whole or not at all. It carries the job's environment: only its owner may read it."""
    draft = directory / f"{ORDER_FILE}.draft"
    draft.touch(mode=0o600)
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(order))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / ORDER_FILE)


def read_order(directory: Path) -> Order | None:
    """Return the order of an attempt; None if none was written yet."""
    try:
        return msgspec.json.decode((directory / ORDER_FILE).read_bytes(), type=Order)
    except FileNotFoundError:
        return None


def read_record(directory: Path) -> AttemptRecord:
    """Return what the keeper knows; without a file, nothing has happened."""
    try:
        return msgspec.json.decode((directory / RECORD_FILE).read_bytes(), type=AttemptRecord)
    except FileNotFoundError:
        return AttemptRecord()
