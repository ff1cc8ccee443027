"""Tells the starts of a gang's replicas together: the record is then written once, and not once per replica.

Pods of one gang start within moments of each other. A start that comes alone waits for the others a moment; any other
news of the gang goes out behind the starts that came before it.
"""

import asyncio
from collections.abc import Callable

from gangline.engines.kubernetes.launching.gang_state import GangState
from gangline.lifecycle.events import ReplicaStarted
from gangline.model import GangId

_HELD_SECONDS = 2.0


class BatchedStarts:
    """Holds starts back for a moment. ``tell`` takes them in the end."""

    def __init__(self, tell: Callable[[ReplicaStarted], None]) -> None:
        self._tell = tell
        self._held: dict[GangId, list[ReplicaStarted]] = {}

    def note(self, state: GangState, event: ReplicaStarted) -> None:
        """Take a start in; told at once if it completes its gang, or if nobody has said how large that is."""
        held = self._held.setdefault(state.gang_id, [])
        held.append(event)
        expected = len(state.gang.replicas) if state.gang is not None else 0
        if sum(1 for _, kind in state.told if kind == "started") >= expected:
            self.flush(state.gang_id)
        elif len(held) == 1:
            asyncio.get_running_loop().call_later(_HELD_SECONDS, self.flush, state.gang_id)

    def flush(self, gang_id: GangId) -> None:
        """Tell what is held of a gang."""
        for event in self._held.pop(gang_id, ()):
            self._tell(event)
