"""Turns what the cluster shows into what the controller hears; each fact is told once in a life of the engine.

The view calls it with every pod that changes. What a pod's state means is decided in ``news``; which of it is new, and
what else must be done about it, is decided here. It orders nothing but the end of pods that should not be.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gangline.engines.kubernetes.background_tasks import BackgroundTasks, retry_until_done
from gangline.engines.kubernetes.foreign.binding import Binder
from gangline.engines.kubernetes.launching.gang_state import Gangs, GangState
from gangline.engines.kubernetes.launching.removal import Remover, may_outlive
from gangline.engines.kubernetes.logs.metric_reader import MetricReader
from gangline.engines.kubernetes.logs.transfer_reader import TransferReader
from gangline.engines.kubernetes.manifests.staging import INPUTS_CONTAINER
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.node_rules.capacity import pod_requests
from gangline.engines.kubernetes.orders.batched_starts import BatchedStarts
from gangline.engines.kubernetes.orders.outbox import Outbox
from gangline.engines.kubernetes.orders.pod_retry import PodRetry
from gangline.engines.kubernetes.orders.refused_places import RefusedPlaces
from gangline.engines.kubernetes.refusals import Refusal, is_passing_refusal
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.engines.kubernetes.watch.pod_events import PodContext, pod_events, refused_by_node, replica_lost
from gangline.engines.kubernetes.watch.stuck import stuck_reason
from gangline.kube import KubeClient, Pod
from gangline.lifecycle.events import (
    DownloadStarted,
    GangEvent,
    GangFailed,
    ReplicaExited,
    ReplicaLost,
    ReplicaStarted,
    TransferReported,
)
from gangline.model import Clock, NodeName, ReplicaId, Resources

_STUCK_SECONDS = 10.0


class Reporter:
    """Reports what becomes of gangs."""

    def __init__(
        self,
        client: KubeClient,
        view: ClusterView,
        gangs: Gangs,
        outbox: Outbox,
        background: BackgroundTasks,
        *,
        remover: Remover,
        binder: Binder,
        listener: MetricReader,
        transfers: TransferReader,
        pod_retry: PodRetry,
        clock: Clock,
    ) -> None:
        self._client = client
        self._view = view
        self._gangs = gangs
        self._outbox = outbox
        self._background = background
        self._remover = remover
        self._binder = binder
        self._listener = listener
        self._transfers = transfers
        self._pod_retry = pod_retry
        self._clock = clock
        self._batched_starts = BatchedStarts(outbox.tell)
        self._refused = RefusedPlaces()

    def pod_changed(self, key: ReplicaKey, pod: Pod, *, gone: bool) -> None:
        """Take in the present state of a pod, or that it is no longer there."""
        if self._binder.knows(key.gang_id):
            self._foreign_changed(key, pod, gone=gone)
            return
        if self._gangs.has_ended(key.gang_id):
            if not gone and not self._gangs.is_kept(key):
                self.delete_late([pod])
            return
        state = self._gangs.state(key.gang_id)
        if not state.ordered and may_outlive(pod):
            return  # it is heard when somebody orders its gang; most likely its job ended long ago
        if self._pod_retry.takes(state, key, pod, gone=gone):
            return
        if key not in state.seen and not gone and state.taking_down is None:
            # The order that left it out may be older than the first sight of it.
            self.release_unlisted(state, {key: pod})
        state.seen.add(key)
        state.changed.set()
        if state.taking_down is not None and not gone and key not in state.leaving | state.kept:
            state.leaving.add(key)
            self.delete_late([pod])
        around = PodContext(
            now=self._clock.now(),
            ordered_away=key in state.leaving,
            gone=gone,
            node_lost=self._view.is_node_lost(pod.spec.node_name),
            node_open=self._view.is_node_open(pod.spec.node_name),
        )
        for event in pod_events(key, pod, around):
            self._tell_if_new(state, key, pod, event, readable=not (gone or around.node_lost))
        if pod.metadata.deletion_timestamp is not None and not gone and key not in state.leaving | state.collected:
            self._background.spawn(self._remover.collect(state, key, pod), name=f"keep log of {pod.metadata.name}")

    def node_lost(self, name: str) -> None:
        """Take in that nobody has heard of a node for too long."""
        for gang_id in self._view.gangs():
            for key, pod in tuple(self._view.pods_of(gang_id).items()):
                if pod.spec.node_name == name:
                    self.pod_changed(key, pod, gone=False)

    def lose(self, state: GangState, key: ReplicaKey, node: NodeName) -> None:
        """Report a replica whose pod is gone from a node and of whose end nothing is known."""
        if state.first(key, "ended"):
            in_place = self._view.is_node_open(node)
            self._outbox.tell(replica_lost(key, "its pod is gone", at=self._clock.now(), in_place=in_place))

    def fail(self, state: GangState, refusal: Refusal) -> None:
        """Report that a gang cannot be had as it was ordered."""
        if state.first(None, "failed"):
            state.changed.set()
            job_id, attempt = state.gang_id
            self._outbox.tell(
                GangFailed(
                    job_id=job_id,
                    at=self._clock.now(),
                    attempt=attempt,
                    reason=refusal.reason,
                    message=refusal.message,
                    permanent=refusal.permanent,
                    blameless=refusal.blameless,
                )
            )

    def delete_late(self, pods: Iterable[Pod]) -> None:
        """Remove pods that came when nobody wanted them any more."""
        late = tuple(pods)
        self._background.spawn(retry_until_done(lambda: self._remover.ask_to_end(late, 0)), name="late pods")

    def release_unlisted(self, state: GangState, pods: Mapping[ReplicaKey, Pod]) -> None:
        """Let those of a gang's pods go that its last order does not name."""
        gang = state.gang
        if gang is None:
            return
        listed = {ReplicaKey(gang.id, replica.id, replica.incarnation) for replica in gang.replicas}
        surplus = {key: pod for key, pod in pods.items() if key not in listed and key not in state.leaving}
        if surplus:
            state.leaving.update(surplus)
            grace = gang.spec.policy.grace_seconds
            release = retry_until_done(lambda: self._remover.let_go(state, surplus, grace))
            self._background.spawn(release, name=f"shrink {gang.id}")

    def refused_places(self) -> Mapping[str, Resources]:
        """What kubelets turned away lately, by node."""
        return self._refused.at(asyncio.get_running_loop().time())

    async def look_for_stuck(self) -> None:
        """Find pods that wait for something that will not come, such as a volume: only their events tell."""
        while True:
            await asyncio.sleep(_STUCK_SECONDS)
            for state in self._gangs.all():
                for key, pod in tuple(self._view.pods_of(state.gang_id).items()):
                    if key in state.leaving or (None, "failed") in state.told or self._binder.knows(state.gang_id):
                        continue
                    reason = await stuck_reason(self._client, pod, now=self._clock.now())
                    if reason is not None:
                        self.fail(state, replace(reason, message=f"{key.replica}: {reason.message}"))

    def _foreign_changed(self, key: ReplicaKey, pod: Pod, *, gone: bool) -> None:
        state = self._gangs.state(key.gang_id)
        self._binder.pod_changed(state, key, pod, gone=gone)
        if refused_by_node(pod) and state.first(key, "refused"):
            self._remember_refusal(pod, passing=is_passing_refusal(pod.status.reason))
        elif pod.status.phase == "Running" and state.first(key, "admitted"):
            self._refused.admitted(pod.spec.node_name)

    def _tell_if_new(self, state: GangState, key: ReplicaKey, pod: Pod, event: GangEvent, *, readable: bool) -> None:
        match event:
            case GangFailed():
                refusal = Refusal(reason=event.reason, message=event.message, permanent=event.permanent)
                self.fail(state, refusal)
            case DownloadStarted():
                if state.first(None, "downloading"):
                    self._outbox.tell(event)
                if _is_lead(state, key) and state.first(key, "followed"):
                    self._transfers.begin(state.gang_id, pod, INPUTS_CONTAINER)
            case TransferReported():
                if _is_lead(state, key) and state.first(key, "fetched"):
                    self._outbox.tell(event)
            case ReplicaStarted():
                if state.first(key, "started"):
                    if _is_lead(state, key):
                        self._listener.begin(key, pod)
                    self._batched_starts.note(state, event)
            case ReplicaExited() | ReplicaLost():
                if state.first(key, "ended"):
                    self._batched_starts.flush(key.gang_id)
                    self._tell_end(key, pod, event, readable=readable)

    def _tell_end(self, key: ReplicaKey, pod: Pod, event: ReplicaExited | ReplicaLost, *, readable: bool) -> None:
        """Tell how a replica ended, behind the numbers it reported; nobody waits for those that nobody can read."""
        if isinstance(event, ReplicaExited) and readable:
            self._outbox.tell_after(event, self._listener.read_to_end(key, pod))
            return
        self._listener.forget(key)
        if refused_by_node(pod):
            self._remember_refusal(pod)
        self._outbox.tell(event)

    def _remember_refusal(self, pod: Pod, *, passing: bool = False) -> None:
        loop = asyncio.get_running_loop()
        seconds = self._refused.note(pod.spec.node_name, pod_requests(pod), now=loop.time(), passing=passing)
        self._outbox.nodes_changed()
        loop.call_later(seconds, self._outbox.nodes_changed)


def _is_lead(state: GangState, key: ReplicaKey) -> bool:
    return state.gang is not None and key.replica == ReplicaId(state.gang.spec.lead_role, 0)
