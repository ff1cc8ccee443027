"""Tells the owners of pods what became of them, as users of kube-scheduler expect: events and a condition.

Best effort, in the background and never in the way; a message that was said is not said again.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import msgspec

from gangline.engines.kubernetes.node_rules.capacity import PORT_PREFIX
from gangline.engines.kubernetes.watch.watched_pods import moment_text
from gangline.kube import EVENTS, PODS, AlreadyExistsError, KubeClient, KubeError, NotFoundError, Pod
from gangline.model import Clock, Explanation, JobId

_log = logging.getLogger(__name__)
_LONGEST_QUEUE = 10_000
_LONGEST_MESSAGE = 1000
_DIGEST_LENGTH = 8
_SOMEBODY = JobId("another job")
_PORT_TAKEN = re.compile(rf"less than 1 {re.escape(PORT_PREFIX)}(\w+)-(\d+) free")


def readable(why: Explanation) -> str:
    """The scheduler's reasons for somebody who knows pods, and neither others' jobs nor what the scheduler was told."""
    behind = _SOMEBODY if why.behind is not None else None
    missing = {name: amount for name, amount in why.missing.items() if not name.startswith(PORT_PREFIX)}
    text = " ".join(replace(why, holders=(), behind=behind, missing=missing).words())
    return _PORT_TAKEN.sub(r"port \2/\1 is taken", text)


class PodEventRecorder:
    """Sends events and conditions for pods of others."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._said: dict[str, str] = {}
        self._waiting: asyncio.Queue[Coroutine[Any, Any, None]] = asyncio.Queue(_LONGEST_QUEUE)
        self._sender: asyncio.Task[None] | None = None
        """One alone: in a burst of bindings the server has better things to do, and afterwards one is quick enough."""

    def scheduled(self, pod: Pod, node: str) -> None:
        """The pod has its node; the server itself sets the condition."""
        where = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._said.pop(pod.metadata.uid, None)
        self._send(self._event(pod, "Normal", "Scheduled", f"Successfully assigned {where} to {node}"))

    def waits(self, pod: Pod, message: str) -> None:
        """The pod must wait, and why."""
        uid, text = pod.metadata.uid, message[:_LONGEST_MESSAGE]
        if self._said.get(uid) != text:
            self._said[uid] = text
            self._send(self._event(pod, "Warning", "FailedScheduling", text))
            self._send(self._condition(pod, "PodScheduled", "False", "Unschedulable", text))

    async def disrupted(self, pod: Pod, message: str) -> None:
        """The pod is about to be removed for somebody else: whoever owns it should not count that as its failure."""
        await self._condition(pod, "DisruptionTarget", "True", "PreemptionByScheduler", message)
        self._send(self._event(pod, "Normal", "Preempted", message))

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._said.pop(uid, None)

    async def close(self) -> None:
        """Leave the rest unsaid."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        while not self._waiting.empty():
            self._waiting.get_nowait().close()

    def _send(self, message: Coroutine[Any, Any, None]) -> None:
        if self._waiting.full():
            message.close()
            return
        self._waiting.put_nowait(message)
        if self._sender is None:
            self._sender = asyncio.create_task(self._work(), name="announce")

    async def _work(self) -> None:
        while True:
            message = await self._waiting.get()
            await message

    async def _event(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        metadata, moment = pod.metadata, self._moment()
        body = {
            "metadata": {
                "name": f"{metadata.name[:200]}.{_digest((metadata.uid, reason, message))}",
                "namespace": metadata.namespace,
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
            "source": {"component": "gangline"},
            "reportingComponent": "gangline",
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        try:
            await self._client.create(EVENTS, body)
        except AlreadyExistsError:
            return  # said before, in this life or an earlier one
        except KubeError as error:
            _log.debug("an event could not be sent: %s", error)

    async def _condition(self, pod: Pod, kind: str, status: str, reason: str, message: str) -> None:
        """Write one condition and leave the others alone: they are a map by type to the server."""
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": self._moment(),
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid},
            "status": {"conditions": [condition]},
        }
        try:
            await self._client.apply(PODS, body, subresource="status", force=True)
        except NotFoundError:
            return
        except KubeError as error:
            _log.debug("a condition of %s could not be written: %s", pod.metadata.name, error)

    def _moment(self) -> str:
        return moment_text(self._clock.now())


def _digest(value: object) -> str:
    """A short name for a value, the same in every life of the controller."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:_DIGEST_LENGTH]
