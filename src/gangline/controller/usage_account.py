"""What queues have used, kept in their records: a restart of the controller forgives nobody."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from gangline.errors import GanglineError
from gangline.kinds.queue import QUEUE
from gangline.model import QueueName, QueueStatus
from gangline.scheduling.cycle_memory import PastUse
from gangline.storage.interface import Store
from gangline.storage.owned import all_records, find_record

_log = logging.getLogger(__name__)


class UsageAccount:
    """Writes what a queue has used whenever its share changes; until then nothing new is to be known of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._saved: dict[QueueName, PastUse] = {}

    async def read(self) -> Mapping[QueueName, PastUse]:
        """Return what was kept last."""
        for record in await all_records(self._store, QUEUE):
            status = record.status
            if status.past_use_at is not None:
                self._saved[record.spec.name] = PastUse(status.past_use, status.past_use_at, status.using)
        return dict(self._saved)

    async def keep(self, usage: Mapping[QueueName, PastUse]) -> None:
        """Save what has changed; what the store refuses is tried again with the next change of anything."""
        for name, past in usage.items():
            known = self._saved.get(name)
            if known.using != past.using if known else past != PastUse(0.0, past.at, 0.0):
                try:
                    await self._save(name, past)
                except GanglineError as error:
                    _log.warning("what queue '%s' has used could not be kept: %s", name, error)

    async def _save(self, name: QueueName, past: PastUse) -> None:
        records = self._store.records(QUEUE)
        record = await find_record(self._store, QUEUE, None, name)
        if record is not None:
            status = QueueStatus(past_use=past.share, past_use_at=past.at, using=past.using)
            changed = replace(record, status=status)
            # One that always existed was never written.
            await (records.save(changed) if record.version else records.create(changed))
        self._saved[name] = past
