"""Looks after workspaces: whether their programs answer, and when somebody last used them.

Nothing is decided here: ``gangline.workspaces`` says what follows from what is seen. What is seen is not kept; when a
workspace was used is, in its record, so that a restart does not count as use.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import aiohttp

from gangline.controller.services import lead_start
from gangline.engines.interface import Answering, Engine
from gangline.kinds.kind import Owned
from gangline.model import Clock, GangId, ReplicaId, Timestamp
from gangline.model.kinds.service import Check
from gangline.model.kinds.workspace import Tool, Workspace
from gangline.model.record import RecordId
from gangline.workspaces import WorkspaceSight

_log = logging.getLogger(__name__)
_STARTING_SECONDS = 0.2
_KERNEL_SECONDS = 10.0
"""How often a notebook is asked whether its kernels work."""
_ASK_SECONDS = 5.0
_CHECK = Check(timeout_seconds=1.0)
_BUSY = "busy"


class Gate(Protocol):
    """What the gateway in front of workspaces knows."""

    def token_of(self, record_id: RecordId) -> str:
        """Return what it shows the program with every request."""
        ...

    def used_at(self, record_id: RecordId) -> Timestamp | None:
        """Return when somebody last used it through the gateway."""
        ...


Feed = Callable[[Workspace], Any]
"""Awaited before a TensorBoard's job begins and again and again while it runs: brings what it shows up to date."""


@dataclass(slots=True)
class _Known:
    workspace: Workspace
    start: tuple[GangId, ReplicaId, int] | None = None
    sight: WorkspaceSight = field(default_factory=WorkspaceSight)
    kernels_at: Timestamp | None = None
    asked_at: float = 0.0


class WorkspaceObserver:
    """Sees workspaces; there is one beside the record driver (``controller.records.Observer``)."""

    def __init__(
        self, *, engine: Engine, gate: Gate, clock: Clock, wake: Callable[[RecordId], None], feed: Feed | None = None
    ) -> None:
        self._engine = engine
        self._gate = gate
        self._clock = clock
        self._wake = wake
        self._feed = feed
        self._known: dict[RecordId, _Known] = {}
        self._needed = asyncio.Event()

    async def run(self) -> None:
        """Look at programs, as long as there are any."""
        timeout = aiohttp.ClientTimeout(total=_ASK_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
            while True:
                await self._needed.wait()
                found = list(self._known.items())
                await asyncio.gather(*(self._look_at(session, record_id, known) for record_id, known in found))
                starting = any(known.start is not None and not known.sight.ready for known in self._known.values())
                await asyncio.sleep(_STARTING_SECONDS if starting else 1.0)
                if not self._known:
                    self._needed.clear()

    async def look(self, record: Workspace, owned: Owned) -> WorkspaceSight:
        """Return a workspace as it was seen last."""
        if not record.status.wanted:
            self._known.pop(record.id, None)
            return WorkspaceSight()
        known = self._known.setdefault(record.id, _Known(record))
        known.workspace = record
        job = next((each for each in owned.jobs if each.id == record.job_id(record.status.run)), None)
        start = None if job is None else lead_start(job)
        if start != known.start:
            known.start, known.sight, known.kernels_at = start, WorkspaceSight(), None
        self._needed.set()
        return known.sight

    async def show(self, record: Workspace, owned: Owned) -> None:
        """Nobody has to be told: the gateway reads the record."""

    async def forget(self, record: Workspace) -> bool:
        """Look at it no longer."""
        self._known.pop(record.id, None)
        return True

    async def _look_at(self, session: aiohttp.ClientSession, record_id: RecordId, known: _Known) -> None:
        try:
            sight = await self._sight(session, record_id, known)
        except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
            _log.exception("workspace %s cannot be looked at", known.workspace.name)
            return
        before, known.sight = known.sight, sight
        warned = known.workspace.status.warned_at is not None
        if before.ready != sight.ready or (warned and before.used_at != sight.used_at):
            self._wake(record_id)

    async def _sight(self, session: aiohttp.ClientSession, record_id: RecordId, known: _Known) -> WorkspaceSight:
        start = known.start
        if start is None or not isinstance(self._engine, Answering):
            return WorkspaceSight()
        refusal = await self._engine.check(start[0], start[1], _CHECK)
        if start != known.start:
            return WorkspaceSight()  # it was started anew meanwhile
        ready = not refusal or known.sight.ready  # a program that is busy for a moment is not starting again
        if ready and self._clock.now() >= known.asked_at + _KERNEL_SECONDS:
            known.asked_at = self._clock.now()
            await self._refresh(session, record_id, known, start)
        uses = [each for each in (self._gate.used_at(record_id), known.kernels_at) if each is not None]
        return WorkspaceSight(ready=ready, used_at=max(uses, default=None), message="" if ready else "it is starting")

    async def _refresh(
        self, session: aiohttp.ClientSession, record_id: RecordId, known: _Known, start: tuple[GangId, ReplicaId, int]
    ) -> None:
        if known.workspace.spec.tool is Tool.TENSORBOARD and self._feed is not None:
            await self._feed(known.workspace)
        if known.workspace.spec.tool is not Tool.NOTEBOOK or not isinstance(self._engine, Answering):
            return
        address = f"http://{self._engine.address_of(*start[:2])}/api/kernels"
        headers = {"Authorization": f"token {self._gate.token_of(record_id)}"}
        try:
            async with session.get(address, headers=headers) as answer:
                kernels = await answer.json() if answer.ok else []
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return
        used = [at for each in kernels if (at := _kernel_use(each, self._clock.now())) is not None]
        known.kernels_at = max([*used, *([known.kernels_at] if known.kernels_at else [])], default=None)


def _kernel_use(kernel: Any, now: Timestamp) -> Timestamp | None:
    """When a kernel last worked: it may do so for hours while nobody looks."""
    if not isinstance(kernel, dict):
        return None
    if kernel.get("execution_state") == _BUSY:
        return now
    try:
        return Timestamp(datetime.fromisoformat(str(kernel.get("last_activity"))).timestamp())
    except ValueError:
        return None
