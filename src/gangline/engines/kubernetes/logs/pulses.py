"""Whether the replicas of a gang get on with their work, as far as that shows from outside their pods.

What a pod wrote last is read from its log. Processor time comes from the metrics API where the cluster has one. Without
it a replica counts as busy until its own stacks say otherwise (``gangline.runtime.stacks``): they are among its output,
which is also where its user finds them.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass

from gangline.engines.kubernetes.logs.saved_logs import parse, raw_lines
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.watch.pod_events import main_state
from gangline.engines.kubernetes.watch.usage import measured_cpu
from gangline.kube import KubeClient, KubeError, Pod
from gangline.lifecycle.watching import Pulse
from gangline.model import Clock, ReplicaId, Timestamp
from gangline.runtime.stacks import innermost, is_own_line, silence

_TAIL = 200
"""Lines that are looked at: a stack of a few threads, and what came before it."""
_IDLE_MILLIS = 10
_FORGOTTEN_SECONDS = 3600.0
_METRIC = '{"at":'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """The end of what a pod wrote."""

    output_at: Timestamp | None = None
    idle_since: Timestamp | None = None
    """Since when it is idle, where its own stacks are the last thing that it wrote."""
    stacks: str = ""


class Pulses:
    """Looks at replicas, and adds up what processors did for them."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._used: dict[str, tuple[Timestamp, float]] = {}
        """Of each pod, by its uid: when it was looked at last, and its processor time until then."""

    async def look(self, pods: Mapping[ReplicaKey, Pod]) -> dict[ReplicaId, Pulse]:
        """Look at those that run."""
        running = [(key, pod) for key, pod in pods.items() if main_state(pod).running is not None]
        namespaces = {pod.metadata.namespace for _, pod in running}
        measured = dict[tuple[str, str], int]()
        for each in namespaces:
            measured |= await measured_cpu(self._client, each)
        said = await asyncio.gather(*(self._said(pod) for _, pod in running))
        now = self._clock.now()
        found = {}
        for (key, pod), tail in zip(running, said, strict=True):
            millis = measured.get((pod.metadata.namespace, pod.metadata.name))
            idle_since = tail.idle_since if millis is None or millis < _IDLE_MILLIS else None
            share = float(idle_since is None) if millis is None else millis / 1000
            found[key.replica] = Pulse(
                cpu_seconds=self._add(pod, share, now), output_at=tail.output_at, idle_since=idle_since
            )
        alive = {pod.metadata.uid for pod in pods.values()}
        stale = [uid for uid, (at, _) in self._used.items() if uid not in alive and now - at > _FORGOTTEN_SECONDS]
        for uid in stale:
            del self._used[uid]
        return found

    async def places(self, pods: Mapping[ReplicaKey, Pod]) -> dict[ReplicaId, str]:
        """Return where each running replica is, as far as its stacks say so."""
        running = [(key, pod) for key, pod in pods.items() if main_state(pod).running is not None]
        said = await asyncio.gather(*(self._said(pod) for _, pod in running))
        return {key.replica: innermost(each.stacks) for (key, _), each in zip(running, said, strict=True)}

    def _add(self, pod: Pod, share: float, now: Timestamp) -> float:
        at, used = self._used.get(pod.metadata.uid, (now, 0.0))
        used += share * (now - at)
        self._used[pod.metadata.uid] = now, used
        return used

    async def _said(self, pod: Pod) -> _Said:
        lines = list[tuple[Timestamp, str]]()
        try:
            async with aclosing(raw_lines(self._client, pod, follow=False, tail=_TAIL)) as found:
                lines = [parse(raw) async for raw in found]
        except KubeError:
            return _Said()
        return read_tail([(at, text) for at, text in lines if not text.startswith(_METRIC)])


def read_tail(lines: list[tuple[Timestamp, str]]) -> _Said:
    """Tell apart what a program wrote and the stacks that were written of it."""
    own = [(at, text) for at, text in lines if not is_own_line(text)]
    output_at = own[-1][0] if own else None
    starts = [position for position, (_, text) in enumerate(lines) if silence(text) is not None]
    if not starts:
        return _Said(output_at=output_at)
    begun_at, heading = lines[starts[-1]]
    stacks = "\n".join(text for _, text in lines[starts[-1] :] if is_own_line(text))
    idle_since = Timestamp(begun_at - (silence(heading) or 0.0))
    fresh = output_at is None or begun_at >= output_at
    return _Said(output_at=output_at, idle_since=idle_since if fresh else None, stacks=stacks)
