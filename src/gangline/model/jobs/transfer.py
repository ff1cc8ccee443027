"""Data of a job on its way: how far it is, and what was moved."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataVersion:
    """What lay at an address; the digest tells its content from any other, where it is known."""

    address: str
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferProgress:
    """How far the inputs or outputs of a job have come. The total grows as the mover looks at one after the other."""

    moved_bytes: int = 0
    total_bytes: int = 0
    moved_files: int = 0
    total_files: int = 0
    bytes_per_second: float = 0.0
    move: int = 1
    """Which of the inputs or outputs is on its way, from 1."""
    moves: int = 1

    @property
    def seconds_left(self) -> float | None:
        """How long the rest of what is known takes at this rate; None while nobody knows."""
        left = self.total_bytes - self.moved_bytes
        if left <= 0:
            return 0.0
        return left / self.bytes_per_second if self.bytes_per_second > 0 else None
