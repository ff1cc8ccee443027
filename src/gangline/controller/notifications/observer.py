"""Sees which jobs changed, for notifications, and has what is pending sent.

Nothing is decided here: ``gangline.kinds.notification`` says what is told. What is handed to its plan is handed again
until the record shows that it was noted, so that neither a lost write nor a restart loses a change.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol

from gangline.controller.notifications.sending import Refusal
from gangline.errors import NotFoundError, StorageError
from gangline.kinds.kind import Owned
from gangline.kinds.notification.plan import (
    OVERLAP_SECONDS,
    Attempt,
    NotificationSight,
    follows,
    may_try,
)
from gangline.model import FINAL_PHASES, Clock, Job, JobId, Phase, Timestamp
from gangline.model.kinds.notification import Delivery, Notification, NotificationSpec
from gangline.model.record import RecordId
from gangline.storage.interface import JobQuery, Store
from gangline.storage.listing import every

_log = logging.getLogger(__name__)
_TOLD_AT_ONCE = 20
"""How many are sent before that is noted; a service that dies sends them again."""
_LIST_SECONDS = 300.0
_MOMENT = 0.001
_RETRY_SECONDS = 1.0
_UNFINISHED = frozenset(Phase) - FINAL_PHASES


class Sends(Protocol):
    """Sends one notification."""

    async def send(self, spec: NotificationSpec, delivery: Delivery) -> Refusal | None:
        """Send one; return why it was not accepted, if it was not."""
        ...


@dataclass(slots=True)
class _Known:
    notification: Notification
    listed_at: float | None = None
    changed: dict[JobId, Job | None] = field(default_factory=dict)
    """Jobs to show to the plan; None for one that exists no more."""
    shown: dict[JobId, Job | None] = field(default_factory=dict)
    shown_at: Timestamp | None = None
    sending: "asyncio.Task[None] | None" = None
    attempt: Attempt | None = None


class NotificationObserver:
    """Beside the record driver (``controller.records.Observer``)."""

    def __init__(self, *, store: Store, sender: Sends, clock: Clock, wake: Callable[[RecordId], None]) -> None:
        self._store = store
        self._sender = sender
        self._clock = clock
        self._wake = wake
        self._known: dict[RecordId, _Known] = {}

    async def run(self, changes: AsyncIterator[JobId]) -> None:
        """Note which jobs change, until cancelled; then stop sending."""
        try:
            async for job_id in changes:
                if self._known:
                    await self._note(job_id)
        finally:
            sending = [known.sending for known in self._known.values() if known.sending is not None]
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _note(self, job_id: JobId) -> None:
        while True:
            try:
                job: Job | None = await self._store.get(job_id)
                break
            except NotFoundError:
                job = None
                break
            except StorageError:
                await asyncio.sleep(_RETRY_SECONDS)  # the driver says why
        for record_id, known in self._known.items():
            status = known.notification.status
            followed = status.following.get(job_id)
            if job is None:
                news = followed is not None or job_id in known.changed
            else:
                old = followed is not None and followed.entries == len(job.history)
                news = follows(known.notification.spec, job) and not old
            if news:
                known.changed[job_id] = job
                self._wake(record_id)

    async def look(self, record: Notification, owned: Owned) -> NotificationSight:
        """Return what the record does not show yet."""
        known = self._known.setdefault(record.id, _Known(record))
        known.notification, status = record, record.status
        if known.shown_at is not None and status.seen_at == known.shown_at:
            known.changed = {each: job for each, job in known.changed.items() if known.shown.get(each, ...) is not job}
        if known.attempt is not None and status.tried_at is not None and known.attempt.at <= status.tried_at:
            known.attempt = None
        now = self._clock.now()
        if known.listed_at is None or now - known.listed_at >= _LIST_SECONDS:
            await self._list(known)
            known.listed_at = now
        at = now if status.seen_at is None else max(now, Timestamp(status.seen_at + _MOMENT))
        known.shown, known.shown_at = dict(known.changed), at
        return NotificationSight(
            at=at,
            jobs=tuple(job for job in known.shown.values() if job is not None),
            gone=tuple(each for each, job in known.shown.items() if job is None),
            attempt=known.attempt,
        )

    async def _list(self, known: _Known) -> None:
        """Find what may have changed while nobody looked."""
        tenant, status = known.notification.spec.tenant, known.notification.status
        since = known.notification.created_at if status.seen_at is None else status.seen_at
        recent = Timestamp(since - OVERLAP_SECONDS)
        found: dict[JobId, Job | None] = {}
        for query in (JobQuery(tenant=tenant, phases=_UNFINISHED), JobQuery(tenant=tenant, created_since=recent)):
            found |= {job.id: job async for job in every(self._store, query)}
        for job_id in status.following.keys() - found.keys():
            try:
                found[job_id] = await self._store.get(job_id)
            except NotFoundError:
                found[job_id] = None
        for job_id, job in found.items():
            followed = status.following.get(job_id)
            known_already = followed is not None and job is not None and followed.entries == len(job.history)
            if not known_already and (job is None or follows(known.notification.spec, job)):
                known.changed.setdefault(job_id, job)  # what came meanwhile is newer

    async def show(self, record: Notification, owned: Owned) -> None:
        """Send what is pending."""
        known = self._known[record.id]
        busy = known.sending is not None and not known.sending.done()
        if busy or known.attempt is not None or not may_try(record.status, self._clock.now()):
            return
        known.sending = asyncio.create_task(self._send(record, known), name=f"notification {record.name}")

    async def forget(self, record: Notification) -> bool:
        """Send nothing more."""
        known = self._known.pop(record.id, None)
        if known is not None and known.sending is not None:
            known.sending.cancel()
        return True

    async def _send(self, record: Notification, known: _Known) -> None:
        sent: list[str] = []
        refusal: Refusal | None = None
        for delivery in record.status.pending[:_TOLD_AT_ONCE]:
            try:
                refusal = await self._sender.send(record.spec, delivery)
            except Exception:  # noqa: BLE001  # the top of a task that logs and carries on
                _log.exception("notification %s cannot be sent", record.name)
                refusal = Refusal("internal error; see the service log")
            if refusal is not None:
                _log.info("notification %s of tenant %s: %s", record.name, record.spec.tenant, refusal.text)
                break
            sent.append(delivery.id)
        before, now = record.status.tried_at, self._clock.now()
        at = now if before is None else max(now, Timestamp(before + _MOMENT))
        known.attempt = Attempt(
            at=at,
            sent=tuple(sent),
            problem="" if refusal is None else refusal.text,
            gone=refusal is not None and refusal.gone,
        )
        known.sending = None
        self._wake(record.id)
