"""What the engine has to report, in the order in which the controller must hear it.

News of one gang never overtakes each other: a worker that fails because its chief has ended must not be heard first.
An exit may have to wait for the last numbers of its replica; what happens to its gang meanwhile waits behind it.
"""

import asyncio
from collections import deque

from gangline.engines.interface import EngineEvent, NodesChanged
from gangline.lifecycle.events import GangEvent
from gangline.model import GangId


class Outbox:
    """A queue with one reader."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._held: dict[GangId, deque[tuple[GangEvent, asyncio.Future[None] | None]]] = {}
        self._node_change_queued = False

    async def take(self) -> EngineEvent:
        """Wait for the next news."""
        event = await self._ready.get()
        if isinstance(event, NodesChanged):
            self._node_change_queued = False
        return event

    def nodes_changed(self) -> None:
        """Report that nodes are not as they were; once is enough until somebody has heard it."""
        if not self._node_change_queued:
            self._node_change_queued = True
            self._ready.put_nowait(NodesChanged())

    def tell(self, event: EngineEvent) -> None:
        """Report something, behind whatever is held of its gang."""
        held = self._held.get(_gang_of(event)) if isinstance(event, GangEvent) else None
        if held is not None and isinstance(event, GangEvent):
            held.append((event, None))
        else:
            self._ready.put_nowait(event)

    def tell_after(self, event: GangEvent, work: "asyncio.Future[None]") -> None:
        """Report something when ``work`` is done, however that ends."""
        gang_id = _gang_of(event)
        self._held.setdefault(gang_id, deque()).append((event, work))
        work.add_done_callback(lambda _: self._release(gang_id))

    def _release(self, gang_id: GangId) -> None:
        held = self._held.get(gang_id, deque())
        while held and (held[0][1] is None or held[0][1].done()):
            self._ready.put_nowait(held.popleft()[0])
        if not held:
            self._held.pop(gang_id, None)


def _gang_of(event: GangEvent) -> GangId:
    return GangId(event.job_id, event.attempt)
