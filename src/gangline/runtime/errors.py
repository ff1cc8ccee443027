"""Errors of the runtime library. They have their own root because a job's process does not carry the platform.

RuntimeLibraryError
    ContractError            an environment variable of the contract is missing half of its meaning
    CorruptCheckpointError   a checkpoint does not match its manifest
    MirrorError              a checkpoint could not be kept at its address
    RendezvousError          peers did not accept connections in time
"""

from __future__ import annotations

import copyreg
from pathlib import Path


class RuntimeLibraryError(Exception):
    """Root of what this package raises."""

    def __reduce__(self) -> tuple[object, ...]:
        # By itself Python would call ``__init__`` with the sentence alone, which a pool of processes waits for in vain.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # documented by PEP 307


class ContractError(RuntimeLibraryError):
    """An environment variable set by the engine cannot be read."""

    def __init__(self, variable: str, value: str, expected: str) -> None:
        self.variable, self.value, self.expected = variable, value, expected
        super().__init__(f"{variable}={value!r}: expected {expected}")


class CorruptCheckpointError(RuntimeLibraryError):
    """A checkpoint's files differ from its manifest."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"checkpoint {path} is corrupt: {reason}")


class MirrorError(RuntimeLibraryError):
    """A checkpoint is not at the address where it should be kept."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(f"checkpoints at {address}: {reason}")


class RendezvousError(RuntimeLibraryError):
    """Some peers did not accept a connection before the deadline."""

    def __init__(self, missing: tuple[str, ...], timeout: float) -> None:
        self.missing, self.timeout = missing, timeout
        super().__init__(f"no connection after {timeout:g} s to: {', '.join(missing)}")
