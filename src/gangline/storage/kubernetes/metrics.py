"""Numbers that training code reported, kept in one ConfigMap per job.

They come often and matter little one by one, and every write costs the whole cluster. So they are gathered in memory
and written every few seconds; a crash loses those few seconds. The newest ones are kept, and the newest of each series
whatever its age; that older ones are gone is kept too, for whoever reads them. A monitoring system keeps all.
"""

import asyncio
import base64
import gzip
import logging
import zlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gangline.kube import CONFIG_MAPS, KubeClient, KubeError, NotFoundError, Owner, belongs
from gangline.model import JobId, Metric
from gangline.storage.metrics import MetricKey, SeriesKey, age_of, key_of, order_of, series_of

_log = logging.getLogger(__name__)
_FLUSH_SECONDS = 5.0
_MOST_METRICS = 10_000
_KEY = "metrics.msgpack.gz"
"""MessagePack, because JSON has no word for a number that is not finite, and training diverges."""
_DROPPED = "older-ones-dropped"
_YES = base64.b64encode(b"yes").decode()
_decoder = msgspec.msgpack.Decoder(list[Metric])


class MetricKeeper:
    """Keeps the metrics of the jobs of one store."""

    def __init__(self, client: KubeClient, place: "Callable[[JobId], tuple[str, Owner] | None]") -> None:
        """Make a keeper; ``place`` says under which name and for whom a job's metrics are kept."""
        self._client = client
        self._place = place
        self._held: dict[JobId, dict[MetricKey, Metric]] = {}
        self._dropped: set[JobId] = set()
        """Those held jobs of which older metrics are gone."""
        self._dirty: set[JobId] = set()
        self._flushing: asyncio.Task[None] | None = None

    async def add(self, metrics: Iterable[Metric]) -> None:
        """Take metrics in; those of unknown jobs are dropped."""
        for metric in metrics:
            if metric.job_id not in self._held:
                if self._place(metric.job_id) is None:
                    continue
                await self._hold(metric.job_id)
            held = self._held[metric.job_id]
            held.setdefault(key_of(metric), metric)
            self._dirty.add(metric.job_id)
            if len(held) > 2 * _MOST_METRICS:
                self._held[metric.job_id] = {key_of(stored): stored for stored in _newest(held.values())}
                self._dropped.add(metric.job_id)
        if self._dirty and self._flushing is None:
            self._flushing = asyncio.create_task(self._flush_later(), name="flush metrics")

    async def of(self, job_id: JobId) -> list[Metric]:
        """Return a job's metrics, oldest first."""
        held = self._held.get(job_id)
        metrics = list(held.values()) if held is not None else (await self._load(job_id))[0]
        return sorted(metrics, key=order_of)

    async def has_all(self, job_id: JobId) -> bool:
        """Whether no older metrics of a job are gone."""
        return job_id not in self._dropped if job_id in self._held else not (await self._load(job_id))[1]

    async def latest(self, job_ids: Sequence[JobId]) -> tuple[Metric, ...]:
        """Return the newest value of every series of these jobs."""
        found: list[Metric] = []
        for job_id in sorted(set(job_ids)):
            newest: dict[SeriesKey, Metric] = {}
            for metric in await self.of(job_id):
                known = newest.get(series_of(metric))
                if known is None or age_of(metric) > age_of(known):
                    newest[series_of(metric)] = metric
            found += [newest[series] for series in sorted(newest)]
        return tuple(found)

    async def rest(self, job_id: JobId) -> None:
        """Write what a job that is over has reported, and hold it no longer: whoever wants it reads it."""
        await self.flush(job_id)
        if job_id not in self._dirty:
            self._let_go(job_id)

    def forget(self, job_id: JobId) -> None:
        """Drop a job's metrics from memory; its ConfigMap goes with the job."""
        self._let_go(job_id)
        self._dirty.discard(job_id)

    async def close(self) -> None:
        """Write what is left."""
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
        await self.flush()

    async def flush(self, only: JobId | None = None) -> None:
        """Write what has changed, of one job or of all; what cannot be written now is tried again next time."""
        dirty = self._dirty & {only} if only is not None else self._dirty
        self._dirty = self._dirty - dirty
        for job_id in dirty:
            try:
                await self._write(job_id)
            except KubeError as error:
                _log.warning("metrics of job %s wait to be written: %s", job_id, error)
                self._dirty.add(job_id)

    async def _flush_later(self) -> None:
        await asyncio.sleep(_FLUSH_SECONDS)
        self._flushing = None
        await self.flush()

    async def _hold(self, job_id: JobId) -> None:
        metrics, dropped = await self._load(job_id)
        self._held[job_id] = {key_of(stored): stored for stored in metrics}
        if dropped:
            self._dropped.add(job_id)

    def _let_go(self, job_id: JobId) -> None:
        self._held.pop(job_id, None)
        self._dropped.discard(job_id)

    async def _load(self, job_id: JobId) -> tuple[list[Metric], bool]:
        """Read what is kept, and whether older ones are gone."""
        place = self._place(job_id)
        if place is None:
            return [], False
        name, owner = place
        try:
            stored = await self._client.get(CONFIG_MAPS, name, namespace=owner.namespace)
        except NotFoundError:
            return [], False
        if not belongs(stored.metadata, owner):
            return [], False
        try:
            metrics = _decoder.decode(gzip.decompress(base64.b64decode(stored.binary_data[_KEY])))
        except (KeyError, ValueError, OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
            _log.warning("the metrics in %s/%s were damaged and begin anew: %r", owner.namespace, name, error)
            return [], True
        return metrics, _DROPPED in stored.binary_data

    async def _write(self, job_id: JobId) -> None:
        place = self._place(job_id)
        if place is None:
            return
        name, owner = place
        held = self._held.get(job_id, {})
        newest = _newest(held.values())
        dropped = {_DROPPED: _YES} if job_id in self._dropped or len(newest) < len(held) else {}
        content = base64.b64encode(gzip.compress(msgspec.msgpack.encode(newest))).decode()
        whose = owner.reference
        reference = {"apiVersion": whose.api_version, "kind": whose.kind, "name": whose.name, "uid": whose.uid}
        metadata = {"name": name, "namespace": owner.namespace, "ownerReferences": [reference]}
        body = {"metadata": metadata, "binaryData": {_KEY: content, **dropped}}
        await self._client.apply(CONFIG_MAPS, body, force=True)


def _newest(metrics: Iterable[Metric]) -> list[Metric]:
    """Return the newest of all, and before them the newest of each series that has none among those."""
    ordered = sorted(metrics, key=order_of)
    older, newest = ordered[:-_MOST_METRICS], ordered[-_MOST_METRICS:]
    present = {series_of(metric) for metric in newest}
    last = {series_of(metric): metric for metric in older if series_of(metric) not in present}
    return sorted(last.values(), key=order_of) + newest
