"""The environment contract, read once into a value.

Engines set the variables; training code reads `current()`. Nothing else in this package reads them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from gangline.runtime.errors import ContractError

DEFAULT_GRACE_SECONDS = 30.0
_RANGE = re.compile(r"(.*)\[(\d+)-(\d+)\](.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """This process's place in its job. Outside a job: a chief, alone, with directories below the working directory."""

    job: str
    job_id: str
    role: str
    index: int
    rank: int
    world_size: int
    attempt: int
    incarnation: int
    resume_from: tuple[int, int] | None
    """The step that a user chose to go on from, and the attempt from which on that holds."""
    cluster: Mapping[str, tuple[str, ...]]
    address: str
    data_directory: Path
    result_directory: Path
    checkpoint_directory: Path
    checkpoint_to: str | None
    """Where checkpoints are also written, as the job's file says."""
    checkpoint_keep: int
    checkpoint_seconds: float | None
    checkpoint_keys: tuple[Path, str] | None
    """A file with keys of object stores, and the name of the one that is needed."""
    checkpoint_socket: Path | None
    """Where the container listens that writes checkpoints to their address, on a cluster."""
    metrics_path: Path | None
    secret_path: Path | None
    """A file with the secret that the job's replicas share and nobody else knows."""
    encrypt: bool
    """Whether what replicas say to each other over the network shall be encrypted, where the library can."""
    grace_seconds: float
    in_job: bool

    def abandons(self, step: int, attempt: int) -> bool:
        """Whether a checkpoint does not count any more, because its user chose an earlier one since."""
        return is_abandoned(self.resume_from, step, attempt)

    @property
    def name(self) -> str:
        """The replica's name within its job, such as `worker-3`."""
        return f"{self.role}-{self.index}"

    def peers(self, role: str) -> tuple[str, ...]:
        """Addresses of one role in index order; empty when the job has no such role."""
        return self.cluster.get(role, ())


def is_abandoned(resume_from: tuple[int, int] | None, step: int, attempt: int) -> bool:
    """Whether a checkpoint lies after the step that its user chose to go on from, and was saved before that."""
    return resume_from is not None and step > resume_from[0] and attempt < resume_from[1]


def current(environment: Mapping[str, str] | None = None) -> Replica:
    """Read the contract from the environment (or from a mapping, in tests)."""
    env = os.environ if environment is None else environment
    return Replica(
        job=env.get("JOB_NAME", "local"),
        job_id=env.get("GANGLINE_JOB_ID", ""),
        role=env.get("GANGLINE_ROLE", "chief"),
        index=_whole(env, "GANGLINE_INDEX", 0),
        rank=_whole(env, "GANGLINE_RANK", 0),
        world_size=_whole(env, "GANGLINE_WORLD_SIZE", 1),
        attempt=_whole(env, "GANGLINE_ATTEMPT", 1),
        incarnation=_whole(env, "GANGLINE_INCARNATION", 0),
        resume_from=resume_point(env.get("GANGLINE_RESUME_FROM", "")),
        cluster=_cluster(env),
        address=env.get("GANGLINE_ADDRESS", ""),
        data_directory=Path(env.get("DATA_DIR", "data")),
        result_directory=Path(env.get("RESULT_DIR", "results")),
        checkpoint_directory=Path(env.get("CHECKPOINT_DIR", "checkpoints")),
        checkpoint_to=env.get("GANGLINE_CHECKPOINT_TO") or None,
        checkpoint_keep=_whole(env, "GANGLINE_CHECKPOINT_KEEP", 3),
        checkpoint_seconds=_seconds(env, "GANGLINE_CHECKPOINT_SECONDS", 0.0) or None,
        checkpoint_keys=(
            (Path(env["GANGLINE_CHECKPOINT_KEYS"]), env.get("GANGLINE_CHECKPOINT_STORE", ""))
            if env.get("GANGLINE_CHECKPOINT_KEYS")
            else None
        ),
        checkpoint_socket=(Path(env["GANGLINE_CHECKPOINT_SOCKET"]) if env.get("GANGLINE_CHECKPOINT_SOCKET") else None),
        metrics_path=Path(env["GANGLINE_METRICS"]) if env.get("GANGLINE_METRICS") else None,
        secret_path=Path(env["GANGLINE_SECRET_FILE"]) if env.get("GANGLINE_SECRET_FILE") else None,
        encrypt=_yes_or_no(env, "GANGLINE_ENCRYPT"),
        grace_seconds=_seconds(env, "GANGLINE_GRACE_SECONDS", DEFAULT_GRACE_SECONDS),
        in_job="GANGLINE_ROLE" in env,
    )


def _whole(env: Mapping[str, str], variable: str, default: int) -> int:
    text = env.get(variable, str(default))
    if not text.isascii() or not text.isdigit():
        raise ContractError(variable, text, "a whole number")
    return int(text)


def resume_point(text: str) -> tuple[int, int] | None:
    """Read the step that a user chose to go on from, and the attempt since which that holds."""
    if not text:
        return None
    step, _, attempt = text.partition(".")
    if not (step.isdigit() and attempt.isdigit()):
        raise ContractError("GANGLINE_RESUME_FROM", text, "STEP.ATTEMPT")
    return int(step), int(attempt)


def _yes_or_no(env: Mapping[str, str], variable: str) -> bool:
    text = env.get(variable) or "0"
    if text not in ("0", "1"):
        raise ContractError(variable, text, "1 or 0")
    return text == "1"


def _seconds(env: Mapping[str, str], variable: str, default: float) -> float:
    text = env.get(variable, str(default))
    try:
        return float(text)
    except ValueError as error:
        raise ContractError(variable, text, "a number of seconds") from error


def _cluster(env: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    text = env.get("GANGLINE_CLUSTER") or "{}"
    expected = 'a JSON object such as {"worker": ["host:port"]}'
    try:
        roles = json.loads(text)
    except ValueError as error:
        raise ContractError("GANGLINE_CLUSTER", text, expected) from error
    if not isinstance(roles, dict) or not all(_is_addresses(addresses) for addresses in roles.values()):
        raise ContractError("GANGLINE_CLUSTER", text, expected)
    return MappingProxyType(
        {role: tuple(each for entry in entries for each in _spelled_out(entry)) for role, entries in roles.items()}
    )


def _spelled_out(entry: str) -> Iterable[str]:
    """Every address that an entry stands for: large roles come in ranges, as ``worker-[0-499].job:2222``."""
    found = _RANGE.fullmatch(entry)
    if found is None:
        return (entry,)
    before, first, last, after = found.groups()
    return (f"{before}{number}{after}" for number in range(int(first), int(last) + 1))


def _is_addresses(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
