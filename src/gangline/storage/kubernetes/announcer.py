"""Tells ``kubectl describe`` what happened to a job: one Kubernetes event per phase it enters.

Best effort, in the background and never in the way: the record is the job's status.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gangline.kube import EVENTS, AlreadyExistsError, KubeClient, KubeError
from gangline.model import Phase
from gangline.storage.interface import Record
from gangline.storage.kubernetes.definitions import JOBS
from gangline.storage.kubernetes.wire import Kept

_log = logging.getLogger(__name__)
_LONGEST_QUEUE = 1000
_WARNINGS = frozenset({Phase.FAILED, Phase.RESTARTING})


class Announcer:
    """Sends events one after another."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_LONGEST_QUEUE)
        self._sending: asyncio.Task[None] | None = None

    def announce(self, kept: Kept, records: Sequence[Record]) -> None:
        """Send the records that people care about; when too many wait, new ones are left out."""
        for record in records:
            if record.replica is not None or self._waiting.full():
                continue
            self._waiting.put_nowait(record_to_event(kept, record))
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


def record_to_event(kept: Kept, record: Record) -> dict[str, Any]:
    """Write a record as a Kubernetes event; the name is the record's, so that repeating it changes nothing."""
    moment = datetime.fromtimestamp(record.at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    digest = f"{round(record.at * 1000):x}"
    message = record.message or f"the job is {record.phase}"
    return {
        "metadata": {"name": f"{kept.name[:200]}.{record.reason.lower()}.{digest}", "namespace": kept.namespace},
        "type": "Warning" if record.phase in _WARNINGS else "Normal",
        "reason": record.reason,
        "message": f"{record.phase}: {message}"[:1000],
        "involvedObject": {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "namespace": kept.namespace,
            "name": kept.name,
            "uid": kept.uid,
        },
        "source": {"component": "gangline"},
        "reportingComponent": "gangline",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
