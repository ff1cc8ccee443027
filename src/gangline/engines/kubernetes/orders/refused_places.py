"""How long a place that a kubelet refused counts as taken: whoever took it may not be in sight yet. Pure.

A pod of others cannot be created again in its place as ours are: it is bound for good, and whether another follows is
its owner's to say. A ReplicaSet's comes at once, and is to find the place that only was not released yet: such a
refusal counts for as long as ours would pause, and for the whole time only when that has not helped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gangline.engines.kubernetes.orders.pod_retry import pause_before
from gangline.model import Resources

WHOLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Refused:
    until: float
    amount: Resources
    tries: int


class RefusedPlaces:
    """What was refused lately, by node."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Refused] = {}

    def note(self, node: str, amount: Resources, *, now: float, passing: bool) -> float:
        """Count a place as taken from now on; returns for how many seconds."""
        before = self._nodes.get(node)
        tries = before.tries if before is not None and now < before.until + WHOLE_SECONDS else 0
        pause = pause_before(tries) if passing else None
        seconds = WHOLE_SECONDS if pause is None else pause
        self._nodes[node] = _Refused(now + seconds, amount, tries + 1)
        return seconds

    def admitted(self, node: str) -> None:
        """A pod was let in there: whatever is refused next is refused for the first time."""
        if node in self._nodes:
            self._nodes[node] = replace(self._nodes[node], tries=0)

    def at(self, now: float) -> Mapping[str, Resources]:
        """What counts as taken at a moment."""
        self._nodes = {node: each for node, each in self._nodes.items() if now < each.until + WHOLE_SECONDS}
        return {node: each.amount for node, each in self._nodes.items() if now < each.until}
