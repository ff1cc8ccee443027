"""The end of what a replica wrote, kept when its pod goes, and the numbers it reported along the way.

A pod's log dies with the pod. So before the engine lets a pod go it keeps the end of its log, compressed, in a
ConfigMap
beside the job, where it is as private as the job itself, needs no storage of ours, and is deleted with the job.
"""

import base64
import gzip
import logging
import re
import zlib
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.collector import COLLECTOR_CONTAINER, SOURCES, collector_of
from gangline.engines.kubernetes.manifests.pod import Plain, owned_metadata
from gangline.engines.kubernetes.names import Part, ReplicaKey
from gangline.engines.kubernetes.watch.pod_events import main_container_name, main_state
from gangline.engines.metric_line import read_metric
from gangline.kube import CONFIG_MAPS, AlreadyExistsError, ConfigMap, KubeClient, KubeError, OwnerReference, Pod
from gangline.model import GangId, JobId, LogLine, Metric, ReplicaId, RoleName, Stream, Timestamp
from gangline.runtime.collecting import text_reader

_log = logging.getLogger(__name__)

SAVED_BYTES = 256 * 1024
"""How much of a replica's output is kept when its pod goes, before compression. All of it belongs into a log system."""
_PACK_BYTES = 600 * 1024
_READ_LINES = 20_000
_METRIC_START = b' {"at":'
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z ?")
_KEY = re.compile(r"(?P<role>.+)-(?P<index>\d+)\.(?P<incarnation>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLog:
    """The end of what one pod wrote, as it came: a time, a space and a line."""

    key: ReplicaKey
    text: bytes


def parse(raw: bytes) -> tuple[Timestamp, str]:
    """Split a line that the kubelet stamped."""
    stamp, _, text = raw.decode(errors="replace").partition(" ")
    # The kubelet writes nanoseconds, Python reads microseconds.
    whole, _, rest = stamp.rstrip("Z").partition(".")
    moment = datetime.fromisoformat(f"{whole}.{rest[:6]:0<6}+00:00")
    # Of a line that was drawn over, as progress bars are, a terminal shows what was drawn last.
    return Timestamp(moment.timestamp()), text.rstrip("\r").rpartition("\r")[2]


def metric_of(line: LogLine, job_id: JobId) -> Metric | None:
    """Read a line that ``gangline.runtime`` wrote to report a number; None for all others."""
    return read_metric(line.text, job_id, line.replica) if line.text.startswith('{"at":') else None


def to_lines(log: SavedLog) -> list[LogLine]:
    """Read a kept log back."""
    return [line_of(log.key, raw) for raw in log.text.split(b"\n") if _is_stamped(raw)]


def line_of(key: ReplicaKey, raw: bytes) -> LogLine:
    """Read one stamped line. Kubernetes does not say which stream it came from; it counts as standard output."""
    at, text = parse(raw)
    return LogLine(replica=key.replica, attempt=key.gang_id.attempt, at=at, stream=Stream.STDOUT, text=text)


async def so_far(client: KubeClient, pod: Pod) -> list[bytes]:
    """Read what a pod has written until now; nothing if it never ran or its node does not answer."""
    if main_state(pod).running is None and main_state(pod).terminated is None:
        return []
    return await _gather(pod, raw_lines(client, pod, follow=False, tail=_READ_LINES))


async def to_the_end(client: KubeClient, pod: Pod, known: list[bytes]) -> list[bytes]:
    """Go on reading a pod that is being stopped, from where ``so_far`` ended: its last words matter most."""
    if main_state(pod).running is None:
        return known
    rest = await _gather(pod, raw_lines(client, pod, follow=True, tail=_READ_LINES))
    return joined(known, rest)


def joined(known: list[bytes], rest: list[bytes]) -> list[bytes]:
    """Put two readings of one log together; the last line of the first may not have been at its end yet."""
    last = _stamp_of(known[-1]) if known else b""
    again = [raw for raw in rest if _stamp_of(raw) == last]
    before = [raw for raw in known if _stamp_of(raw) < last] if again else known
    return before + [raw for raw in rest if _stamp_of(raw) >= last]


def _stamp_of(raw: bytes) -> bytes:
    return raw.partition(b" ")[0]


async def _gather(pod: Pod, stream: AsyncGenerator[bytes, None]) -> list[bytes]:
    """Collect the last part of a stream, whatever ends it."""
    kept: deque[bytes] = deque()
    size = 0
    try:
        async with aclosing(stream) as lines:
            async for raw in lines:
                kept.append(raw)
                size += len(raw) + 1
                while size > SAVED_BYTES and len(kept) > 1:
                    size -= len(kept.popleft()) + 1
    except KubeError as error:
        _log.debug("the log of %s broke off: %s", pod.metadata.name, error)
    return list(kept)


async def raw_lines(
    client: KubeClient, pod: Pod, *, follow: bool, tail: int | None = None, container: str | None = None
) -> AsyncGenerator[bytes, None]:
    """Read what the training container of a pod wrote, or another one, each line with its time."""
    stream = client.logs(
        pod.metadata.name,
        namespace=pod.metadata.namespace,
        container=container or main_container_name(pod),
        follow=follow,
        timestamps=True,
        tail_lines=tail,
    )
    async with aclosing(stream) as lines:
        async for raw in lines:
            if _is_stamped(raw):
                yield raw
            elif raw:
                _log.debug("of the log of %s the kubelet says: %s", pod.metadata.name, raw)


def _is_stamped(raw: bytes) -> bool:
    """Whether the program wrote a line. A kubelet that cannot read a log says so inside it, without a time."""
    return _STAMP.match(raw) is not None


def pack(gang_id: GangId, logs: Sequence[SavedLog], *, name: str, namespace: str, controller: str,
         owner: OwnerReference | None) -> list[Plain]:  # fmt: skip
    """Write kept logs as ConfigMaps, as few as their size allows; at least one, which says that the attempt was."""
    groups: list[dict[str, str]] = [{}]
    room = _PACK_BYTES
    for log in logs:
        content = base64.b64encode(gzip.compress(log.text, mtime=0)).decode()
        if len(content) > room and groups[-1]:
            groups.append({})
            room = _PACK_BYTES
        groups[-1][f"{log.key.replica}.{log.key.incarnation}"] = content
        room -= len(content)
    labels = {**names.gang_labels(controller, gang_id), names.PART: Part.LOGS}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": owned_metadata(f"{name}-{gang_id.attempt}-logs{_suffix(group)}", namespace, labels, owner),
            "binaryData": group,
        }
        for group in groups
    ]


def _suffix(group: Iterable[str]) -> str:
    """Tell the packs of one attempt apart by what is in them, so that a repeated order writes the same names."""
    return "".join(f"-{key.replace('.', '-r')}" for key in sorted(group)[:1])


async def keep(client: KubeClient, packs: Iterable[Plain]) -> None:
    """Write packs; what an earlier life of the controller has kept already stays."""
    for body in packs:
        try:
            await client.create(CONFIG_MAPS, body)
        except AlreadyExistsError:
            continue


def unpack(config_map: ConfigMap) -> list[SavedLog]:
    """Read a pack back; what somebody damaged by hand is left out."""
    labels = config_map.metadata.labels
    gang_id = GangId(JobId(labels.get(names.JOB_ID, "")), attempt_of(config_map))
    logs = []
    for key, content in config_map.binary_data.items():
        if (match := _KEY.fullmatch(key)) is None:
            continue
        try:
            text = gzip.decompress(base64.b64decode(content))
        except (ValueError, OSError, EOFError, zlib.error) as error:
            _log.warning("what was kept of %s in %s is damaged: %r", key, config_map.metadata.name, error)
            continue
        replica = ReplicaId(RoleName(match["role"]), int(match["index"]))
        logs.append(SavedLog(key=ReplicaKey(gang_id, replica, int(match["incarnation"])), text=text))
    return logs


def attempt_of(config_map: ConfigMap) -> int:
    """Which attempt a pack is of; none has the number 0."""
    attempt = config_map.metadata.labels.get(names.ATTEMPT, "")
    return int(attempt) if attempt.isdecimal() else 0


def has_collector(pod: Pod) -> bool:
    """Whether a container of ours beside the program reads its numbers from files or a port."""
    return any(each.name == COLLECTOR_CONTAINER for each in pod.status.init_container_statuses or ())


def told_by(pod: Pod) -> list[str]:
    """The containers in whose output the numbers of a pod are looked for."""
    if not has_collector(pod):
        return [main_container_name(pod)]
    printed = collector_of(pod.metadata.annotations).get("kind") == SOURCES
    return [*([main_container_name(pod)] if printed else []), COLLECTOR_CONTAINER]


async def metrics_of(
    client: KubeClient, key: ReplicaKey, pod: Pod, container: str, *, follow: bool
) -> AsyncGenerator[Metric, None]:
    """Search the output of one container for the numbers in it: what there is, or with ``follow`` all there will be.

    Where a program prints them in a form of its own they are looked for in every line.
    """
    order = collector_of(pod.metadata.annotations)
    printed = OutputMetrics(order, key) if order.get("kind") == "StdOut" else None
    async with aclosing(raw_lines(client, pod, follow=follow, container=container)) as lines:
        async for raw in lines:
            if printed is not None:
                for found in printed.read(line_of(key, raw)):
                    yield found
            if _METRIC_START not in raw:
                continue  # most lines are not numbers, and reading a time takes ten times as long
            if (metric := metric_of(line_of(key, raw), key.gang_id.job_id)) is not None:
                yield metric


class OutputMetrics:
    """Finds the numbers that a program prints, and counts them: read again from its start, they are the same."""

    def __init__(self, order: Mapping[str, Any], key: ReplicaKey) -> None:
        self._reader = text_reader(dict(order))
        self._key = key
        self._counts = Counter[str]()

    def read(self, line: LogLine) -> Iterator[Metric]:
        """Return the numbers of a line."""
        for name, value in self._reader.read(line.text):
            self._counts[name] += 1
            yield Metric(
                job_id=self._key.gang_id.job_id,
                replica=self._key.replica,
                name=name,
                value=value,
                step=self._counts[name],
                at=line.at,
            )


def saved_metrics(logs: Iterable[SavedLog]) -> list[Metric]:
    """Return the numbers in kept logs."""
    found = (metric_of(line, log.key.gang_id.job_id) for log in logs for line in to_lines(log))
    return [metric for metric in found if metric is not None]
