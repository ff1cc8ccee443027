"""Tells ``kubectl describe`` what happened to a job: what its kind announces of every record.

Best effort, in the background and never in the way: the record is the job's status.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from gangline.kube import EVENTS, AlreadyExistsError, KubeClient, KubeError
from gangline.model import JobId, JournalRecord, Phase, Timestamp
from gangline.storage.kubernetes.records.events import Subject, record_to_event
from gangline.storage.kubernetes.records.record_kind import Plain, StoredJob

_log = logging.getLogger(__name__)
_LONGEST_QUEUE = 1000
_PAUSE_SECONDS = 0.04
"""Between two events: while hundreds of jobs start, the server has better things to do than to note it."""


class EventRecorder:
    """Sends events one after another."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._waiting: asyncio.Queue[Plain] = asyncio.Queue(_LONGEST_QUEUE)
        self._sending: asyncio.Task[None] | None = None

    def record_events(self, stored: StoredJob, records: Sequence[JournalRecord]) -> None:
        """Send what people care about; when too many wait, new ones are left out."""
        self._put(event for record in records for event in stored.kind.events(stored, record))

    def refuse(self, subject: Subject, message: str, at: Timestamp) -> None:
        """Say that an object is not a job, or no longer the one that runs, and why."""
        record = JournalRecord(job_id=JobId(subject.uid), at=at, reason="Invalid", message=message, phase=Phase.FAILED)
        self._put([record_to_event(subject, record, f"{subject.resource.kind}FailedValidation", message)])

    def _put(self, events: Iterable[Plain]) -> None:
        for event in events:
            if self._waiting.full():
                return
            self._waiting.put_nowait(event)
        if self._sending is None and not self._waiting.empty():
            self._sending = asyncio.create_task(self._send(), name="announce events")

    async def close(self) -> None:
        """Leave the rest unsaid."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self) -> None:
        while True:
            body = await self._waiting.get()
            try:
                await self._client.create(EVENTS, body)
            except AlreadyExistsError:
                continue
            except KubeError as error:
                _log.debug("an event could not be sent: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)
