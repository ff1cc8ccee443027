"""How far workers may drift apart. Pure values; the coordinator gates by them, the store weighs pushes by them.

- bsp: all workers push, the mean is applied once, all pull: one model for everybody.
- ssp:BOUND: a worker may be at most BOUND steps ahead of the slowest; pushes are applied as they come.
- async: nobody waits. `async:cutoff=N` drops a push made from values more than N updates old; `async:scaled` divides
  its learning rate by that age.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gangline.ps.errors import SettingsError


class Mode(StrEnum):
    """The three families."""

    BSP = "bsp"
    SSP = "ssp"
    ASYNC = "async"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """One job's choice."""

    mode: Mode = Mode.ASYNC
    bound: int = 0
    cutoff: int | None = None
    scaled: bool = False

    @property
    def gated(self) -> bool:
        """Whether workers wait for one another."""
        return self.mode is not Mode.ASYNC

    def may_pass(self, clock: int, slowest: int) -> bool:
        """Whether a worker that has made `clock` steps may begin the next one."""
        return not self.gated or clock - slowest <= self.bound

    def weight(self, staleness: int) -> float:
        """What to multiply a push's learning rate with; 0 drops it."""
        if self.cutoff is not None and staleness > self.cutoff:
            return 0.0
        return 1.0 / max(1, staleness) if self.scaled else 1.0


def parse_consistency(text: str) -> Consistency:
    """Read the short form, for example `ssp:3`."""
    mode, _, rest = text.partition(":")
    try:
        if mode == Mode.BSP and not rest:
            return Consistency(mode=Mode.BSP)
        if mode == Mode.SSP:
            return Consistency(mode=Mode.SSP, bound=_whole(rest))
        if mode == Mode.ASYNC and not rest:
            return Consistency()
        if mode == Mode.ASYNC and rest == "scaled":
            return Consistency(scaled=True)
        if mode == Mode.ASYNC and rest.startswith("cutoff="):
            return Consistency(cutoff=_whole(rest.removeprefix("cutoff=")))
    except ValueError as error:
        raise SettingsError(f"consistency {text!r}: {error}") from error
    raise SettingsError(f"consistency {text!r}: expected bsp, ssp:BOUND, async, async:cutoff=N or async:scaled")


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(f"{value} is below zero")
    return value
