"""Carries out orders for gangs of others' pods: gives the pods their nodes, and takes them away again to make room."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gangline.engines.kubernetes.foreign.pod_events import POD_GONE, end_of, exited, start_of
from gangline.engines.kubernetes.foreign.pod_requests import claims_of
from gangline.engines.kubernetes.foreign.records import BadRecordError, PodReference, members_of
from gangline.engines.kubernetes.foreign.service import ForeignPods
from gangline.engines.kubernetes.launching.gang_state import GangState
from gangline.engines.kubernetes.launching.removal import Remover
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.refusals import Refusal, RefusedError, refusal_of
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod, is_bound, is_ended, waits
from gangline.kube import ApiError, ConflictError, KubeClient, NotFoundError, Pod
from gangline.lifecycle.events import GangEvent
from gangline.model import Clock, Gang, GangId, NodeName, ReplicaId

_MAKING_ROOM = "removed to make room for another gang"


@dataclass(slots=True)
class _GangEnd:
    """One gang of others' pods: which they are, and the first failure among them."""

    pods: dict[ReplicaId, PodReference]
    failure: tuple[int, str] | None = None


class Binder:
    """Runs and stops gangs whose pods exist already. ``tell`` receives what becomes of them."""

    def __init__(
        self,
        client: KubeClient,
        view: ClusterView,
        remover: Remover,
        foreign: ForeignPods,
        *,
        clock: Clock,
        tell: Callable[[GangEvent], None],
        concurrency: int,
    ) -> None:
        self._client = client
        self._view = view
        self._remover = remover
        self._volumes = foreign.volumes
        self._event_recorder = foreign.event_recorder
        self._records = foreign.records
        self._clock = clock
        self._tell = tell
        self._slots = asyncio.Semaphore(concurrency)
        self._ends: dict[GangId, _GangEnd] = {}

    def knows(self, gang_id: GangId) -> bool:
        """Whether a gang consists of pods of others."""
        return gang_id in self._ends

    async def run(self, state: GangState, gang: Gang, namespace: str) -> None:
        """Bind what has no node yet; raises RefusedError if the cluster will not have it."""
        state.gang, state.name, state.namespace = gang, gang.spec.name, namespace
        try:
            members = members_of(gang.spec)
        except BadRecordError as error:
            raise RefusedError(Refusal(reason="InvalidObject", message=str(error), permanent=True)) from error
        self._ends.setdefault(gang.id, _GangEnd(members))
        unbound: list[tuple[WatchedPod, NodeName]] = []
        for replica in gang.replicas:
            key = ReplicaKey(gang.id, replica.id, replica.incarnation)
            pod = self._find(namespace, members.get(replica.id))
            if pod is None:
                self._end(state, key, 0, POD_GONE)
                continue
            self._view.claim(pod.metadata.uid, key)
            if waits(pod):
                unbound.append((pod, replica.node))
        await self._give_volumes(state, unbound)
        await self._bind_all(unbound)

    def recall(self, state: GangState) -> bool:
        """Whether a gang that is to be stopped consists of pods of others, perhaps bound by an earlier life."""
        record = self._records.find(state.gang_id.job_id)
        if record is None or self.knows(state.gang_id):
            return self.knows(state.gang_id)
        members = record.manifest.replicas()
        self._ends[state.gang_id] = _GangEnd(members)
        for replica, reference in members.items():
            pod = self._find(record.namespace, reference)
            if pod is not None and is_bound(pod):
                self._view.claim(reference.uid, ReplicaKey(state.gang_id, replica, 0))
        return True

    def _find(self, namespace: str, reference: PodReference | None) -> WatchedPod | None:
        """Find a pod of the record's own namespace; a record that names another's gets nothing."""
        return self._view.find_named(namespace, reference.uid) if reference is not None else None

    async def evict(self, state: GangState, grace_seconds: float) -> None:
        """Remove the pods that run; those that ended or never got a node are left to their owners."""
        for key, pod in tuple(self._view.pods_of(state.gang_id).items()):
            if is_ended(pod) or not is_bound(pod):
                self._view.release(pod.metadata.uid)
            else:
                state.leaving.add(key)
        running = tuple(self._view.pods_of(state.gang_id).values())
        await asyncio.gather(*(self._event_recorder.disrupted(pod, _MAKING_ROOM) for pod in running))
        await self._remover.ask_to_end(running, grace_seconds)
        await self._remover.until_gone(state)

    def forget(self, gang_id: GangId) -> None:
        """The gang is over: what is left of its pods is their owners' alone."""
        end = self._ends.pop(gang_id, None)
        for reference in end.pods.values() if end is not None else ():
            self._view.release(reference.uid)

    def pod_changed(self, state: GangState, key: ReplicaKey, pod: Pod, *, gone: bool) -> None:
        """Tell what a pod's state means to its gang."""
        state.changed.set()
        started = start_of(key, pod, self._clock.now())
        if started is not None and state.first(key, "started"):
            self._tell(started)
        ended = end_of(pod, gone=gone)
        if ended is not None:
            self._end(state, key, *ended)

    def _end(self, state: GangState, key: ReplicaKey, exit_code: int, message: str) -> None:
        """Tell of an end; of a failure only with the last of them, for it would take the others down."""
        if not state.first(key, "ended"):
            return
        end = self._ends[key.gang_id]
        if exit_code and end.failure is None:
            end.failure = exit_code, message
        others = (each for other, each in self._view.pods_of(key.gang_id).items() if other != key)
        if end.failure is not None and all(is_ended(pod) for pod in others):
            exit_code, message = end.failure
        else:
            exit_code = 0
        self._tell(exited(key, exit_code, message, self._clock.now()))

    async def _give_volumes(self, state: GangState, unbound: list[tuple[WatchedPod, NodeName]]) -> None:
        wanted = [
            (claim, self._view.nodes[node])
            for pod, node in unbound
            for claim in claims_of(pod)
            if node in self._view.nodes
        ]
        if wanted:
            await self._volumes.give_nodes(state.namespace, wanted)

    async def _bind_all(self, unbound: list[tuple[WatchedPod, NodeName]]) -> None:
        outcomes = await asyncio.gather(*(self._bind(pod, node) for pod, node in unbound), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, ApiError) and (refusal := refusal_of(outcome)) is not None:
                raise RefusedError(refusal) from outcome
            if isinstance(outcome, BaseException):
                raise outcome

    async def _bind(self, pod: WatchedPod, node: NodeName) -> None:
        metadata = pod.metadata
        async with self._slots:
            try:
                await self._client.bind(metadata.name, node, namespace=metadata.namespace, uid=metadata.uid)
            except (ConflictError, NotFoundError):
                return  # it has its node from an earlier try, or is gone; the watch tells which
        self._event_recorder.scheduled(pod, node)
