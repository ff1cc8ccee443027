"""One job's choices for its parameter servers. `serve` takes them; `connect` brings them along, or uses them alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from gangline.ps.consistency import parse_consistency
from gangline.ps.errors import SettingsError
from gangline.ps.optimizers import find_optimizer


class NonFinitePolicy(StrEnum):
    """What happens to a gradient with NaN or infinity."""

    REJECT = "reject"  # the push raises; the worker may go on
    SKIP = "skip"  # the push is dropped and counted
    STOP = "stop"  # the push raises, and so does every later one of the job


class Training(msgspec.Struct, frozen=True, array_like=True):
    """The part of the settings on which servers and workers must agree. Travels with joins and blocks."""

    optimizer: str
    learning_rate: float
    consistency: str
    non_finite: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Optimizer, learning rate, consistency and times. Wrong values are refused here, before anything starts.

    With `from_workers` a server takes the first four from the first worker that joins (see agreement.py).
    """

    optimizer: str = "sgd"
    learning_rate: float = 0.01
    consistency: str = "async"
    non_finite: str = "reject"
    lease_seconds: float = 10.0
    snapshot_seconds: float = 5.0
    from_workers: bool = False

    def __post_init__(self) -> None:
        parse_consistency(self.consistency)
        find_optimizer(self.optimizer)
        if self.non_finite not in tuple(NonFinitePolicy):
            raise SettingsError(f"non_finite {self.non_finite!r}: expected one of {[str(p) for p in NonFinitePolicy]}")
        for name in ("learning_rate", "lease_seconds", "snapshot_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise SettingsError(f"{name} must be a number above zero, not {getattr(self, name)}")

    @property
    def training(self) -> Training:
        """What a server and its workers must agree on."""
        return Training(self.optimizer, float(self.learning_rate), self.consistency, self.non_finite)
