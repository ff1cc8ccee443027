"""What the engine writes for a keeper: the order. What a keeper writes for the engine is in ``keeper.records``.

The keeper reads the same JSON with the standard library alone (``keeper.orders``).
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gangline.data.carrying import Move
from gangline.data.credentials import StoreCredentials
from gangline.engines.local.keeper.orders import CREDENTIALS_FILE
from gangline.model.jobs.metric_source import MetricSource

ORDER_FILE = "order.json"


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
    inputs: list[Move]
    outputs: list[Move]
    receipts: str
    writer: str = ""
    """Who stores results, the same for every attempt."""
    cache: tuple[str, str, int] | None = None
    """The cache of what was fetched: its folder, the tenant, and how many bytes it may hold."""
    models: str | None = None
    """The folder of the tenant's models."""
    metrics: list[MetricSource] = []
    """Files in which the programs write numbers in forms of their own."""
    lead: str = ""
    """The replica that speaks for the job."""
    user: int | None = None
    """The system user that programs and movers run as; None: that of the service."""
    gpu_files: dict[str, str] = {}
    """The files of all GPUs of the machine: programs may open those of their gang's, and no others."""
    environment: dict[str, str] | None = None
    """What movers see of the service's environment; None: all of it."""
    replicas: list[ReplicaOrder]
    leaving: list[ReplicaOrder] = []
    """Replicas that are listed no more and were not gone when this was written: an engine's next life must know."""

    @property
    def socket_name(self) -> str:
        """The abstract name at which this attempt's keeper listens."""
        return f"gangline/keeper/{self.token}"


def write_order(directory: Path, order: Order) -> None:
    """Replace an attempt's order, whole or not at all. It carries the job's environment: only its owner may read it."""
    draft = directory / f"{ORDER_FILE}.draft"
    draft.touch(mode=0o600)
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(order))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / ORDER_FILE)


def write_credentials(directory: Path, credentials: Mapping[str, StoreCredentials]) -> None:
    """Leave the keys that an attempt's movers need where only its owner reads them; its keeper removes them."""
    if not credentials:
        return
    draft = directory / f"{CREDENTIALS_FILE}.draft"
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    draft.write_bytes(msgspec.json.encode({name: given.as_plain() for name, given in credentials.items()}))
    draft.replace(directory / CREDENTIALS_FILE)


def read_order(directory: Path) -> Order | None:
    """Return the order of an attempt; None if none was written yet."""
    try:
        return msgspec.json.decode((directory / ORDER_FILE).read_bytes(), type=Order)
    except FileNotFoundError:
        return None
