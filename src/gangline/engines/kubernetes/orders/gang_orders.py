"""Carries out the controller's orders for gangs: makes their pods exist, has results stored, takes everything down.

Every order may come again, and may find that an earlier life of the engine did half of it. What became of an order is
told through ``reporting``; nothing is returned.
"""

import asyncio
import logging

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.background_tasks import BackgroundTasks, retry_until_done
from gangline.engines.kubernetes.foreign.binding import Binder
from gangline.engines.kubernetes.launching.gang_state import Gangs, GangState
from gangline.engines.kubernetes.launching.launch_order import startable, until_startable
from gangline.engines.kubernetes.launching.launcher import Launcher
from gangline.engines.kubernetes.launching.removal import Remover
from gangline.engines.kubernetes.names import ReplicaKey, is_foreign
from gangline.engines.kubernetes.node_rules.volume_claims import claims_of_gang
from gangline.engines.kubernetes.node_rules.volumes import Volumes
from gangline.engines.kubernetes.orders.outbox import Outbox
from gangline.engines.kubernetes.orders.outputs import OutputStore
from gangline.engines.kubernetes.orders.pod_retry import PodRetry
from gangline.engines.kubernetes.orders.reporting import Reporter
from gangline.engines.kubernetes.refusals import Refusal, RefusedError
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.engines.kubernetes.watch.pod_events import main_state
from gangline.kube import Pod
from gangline.lifecycle.events import GangStopped, OutputsStored
from gangline.model import Clean, Clock, Gang, GangId, GangReplica, ReplicaId

_REFUSED_SECONDS = 15.0

_log = logging.getLogger(__name__)


class Orders:
    """Runs, finishes and stops gangs."""

    def __init__(
        self,
        view: ClusterView,
        gangs: Gangs,
        outbox: Outbox,
        background: BackgroundTasks,
        *,
        reporter: Reporter,
        pod_retry: PodRetry,
        launcher: Launcher,
        remover: Remover,
        binder: Binder,
        outputs: OutputStore,
        volumes: Volumes,
        clock: Clock,
    ) -> None:
        self._view = view
        self._gangs = gangs
        self._outbox = outbox
        self._background = background
        self._reporter = reporter
        self._pod_retry = pod_retry
        self._launcher = launcher
        self._remover = remover
        self._binder = binder
        self._outputs = outputs
        self._volumes = volumes
        self._clock = clock

    async def run(self, state: GangState, gang: Gang | None = None) -> None:
        """Make the replicas of a gang exist; without one, those of the last order."""
        async with state.lock:
            gang = gang or state.gang
            if gang is None or state.taking_down is not None:
                return
            try:
                if is_foreign(gang.spec):
                    await self._binder.run(state, gang, self._launcher.namespace_of(gang))
                else:
                    await self._launch(state, gang)
            except RefusedError as error:
                if error.refusal.blameless and any(replica.started for replica in gang.replicas):
                    self._try_later(state, error)  # what runs goes on, what is new waits
                else:
                    self._reporter.fail(state, error.refusal)

    def finish(self, state: GangState, gang: Gang) -> None:
        """Begin to stop what still runs and to store the outputs."""
        self._adopt(state, gang)
        running = {key: pod for key, pod in self._view.pods_of(gang.id).items() if main_state(pod).terminated is None}
        self._background.spawn(self._finish(state, running, gang.spec.policy.grace_seconds), name=f"finish {gang.id}")

    async def stop(self, gang_id: GangId, grace_seconds: float, clean: Clean) -> None:
        """Begin to take a gang down; a later call with a shorter grace period shortens it."""
        state = self._gangs.state(gang_id)
        if state.taking_down is not None and not state.taking_down.done():
            if self._binder.knows(gang_id):
                return  # its pods have their own grace period, which nobody here may shorten
            # Pods the first order is still reading are not marked yet; asking twice does no harm.
            await self._remover.ask_to_end(self._remover.going(state, clean).values(), grace_seconds)
            return
        state.taking_down = self._background.spawn(self._take_down(state, grace_seconds, clean), name=f"stop {gang_id}")
        state.changed.set()

    async def _launch(self, state: GangState, gang: Gang) -> None:
        if _may_have_shrunk(state.gang, gang):
            self._background.spawn(self._remove_unlisted_services(state), name=f"services of {gang.id}")
        self._adopt(state, gang)
        await self._launcher.adopt(state, gang)
        missing = self._missing(state, gang)
        self._reporter.release_unlisted(state, self._view.pods_of(gang.id))
        now = startable(gang, missing, self._view.pods_of(gang.id))
        if now:
            await self._volumes.give_nodes(state.namespace, claims_of_gang(gang, now, self._view.nodes))
            await self._launcher.launch(state, gang, now)
        waited, state.deferred = state.deferred, tuple(replica for replica in missing if replica not in now)
        if state.deferred and not waited:
            self._background.spawn(self._launch_rest(state), name=f"rest of {gang.id}")

    async def _remove_unlisted_services(self, state: GangState) -> None:
        async def remove() -> None:
            async with state.lock:  # a replica that comes back meanwhile gets its service after this
                await self._launcher.remove_unlisted_services(state)

        await retry_until_done(remove)

    async def _launch_rest(self, state: GangState) -> None:
        while state.deferred and await until_startable(state, self._view):
            await retry_until_done(lambda: self.run(state))

    def _try_later(self, state: GangState, error: RefusedError) -> None:
        if state.refused:
            return
        _log.warning("attempt %s waits with the replicas that are new: %s", state.gang_id, error)
        state.refused = True

        async def run_again() -> None:
            await asyncio.sleep(_REFUSED_SECONDS)
            state.refused = False
            await retry_until_done(lambda: self.run(state))

        self._background.spawn(run_again(), name=f"growth of {state.gang_id}")

    def _adopt(self, state: GangState, gang: Gang) -> None:
        unheard = {} if state.ordered else dict(self._view.pods_of(gang.id))
        if unheard:
            self._outbox.nodes_changed()  # its pods counted as somebody else's until now
        state.gang = gang
        state.name = gang.spec.name
        state.namespace = self._launcher.namespace_of(gang)
        for earlier in self._view.gangs():
            if earlier.job_id == gang.id.job_id and earlier.attempt < gang.id.attempt:
                # A pod of an attempt that was over, created by a life that ended in between.
                self._reporter.delete_late(self._view.pods_of(earlier).values())
        for key, pod in unheard.items():
            self._reporter.pod_changed(key, pod, gone=False)

    def _missing(self, state: GangState, gang: Gang) -> list[GangReplica]:
        """Return the replicas that have no pod and never had one; those that lost theirs are reported."""
        present = self._view.pods_of(gang.id)
        missing = []
        for replica in gang.replicas:
            key = ReplicaKey(gang.id, replica.id, replica.incarnation)
            if key in present:
                self._put_right(state, key, present[key], replica)
                continue
            if key in state.created - state.seen:
                continue
            if replica.started or key in state.seen:
                self._reporter.lose(state, key, replica.node)
            else:
                missing.append(replica)
        return missing

    def _put_right(self, state: GangState, key: ReplicaKey, pod: Pod, replica: GangReplica) -> None:
        """Replace a pod that is elsewhere: the last request of a life that ended before its placement was on record."""
        elsewhere = bool(pod.spec.node_name) and pod.spec.node_name != replica.node
        if elsewhere and not replica.started and pod.metadata.uid not in state.replaced:
            self._pod_retry.replace(state, key, pod)

    async def _finish(self, state: GangState, pods: dict[ReplicaKey, Pod], grace_seconds: float) -> None:
        await retry_until_done(lambda: self._remover.let_go(state, pods, grace_seconds))
        while any(key in self._view.pods_of(state.gang_id) for key in pods):
            state.changed.clear()
            await state.changed.wait()
        note = await self._store_outputs(state)
        if note is not None and state.first(None, "stored"):
            job_id, attempt = state.gang_id
            self._outbox.tell(OutputsStored(job_id=job_id, at=self._clock.now(), attempt=attempt, note=note))

    async def _store_outputs(self, state: GangState) -> str | None:
        """Have the results stored, and return what was left out of them; None after a failure, which is told."""
        gang = state.gang
        if gang is None or not gang.spec.outputs:
            return ""
        lead = ReplicaId(gang.spec.lead_role, 0)
        ending: Refusal | str = ""

        async def store() -> None:
            nonlocal ending
            ending = await self._outputs.store(state, lead)

        await retry_until_done(store)
        if isinstance(ending, str):
            return ending
        if state.taking_down is None:
            self._reporter.fail(state, ending)
        return None

    async def _take_down(self, state: GangState, grace_seconds: float, clean: Clean) -> None:
        async with state.lock:  # a launch under way ends first: what it created must be known to be removed
            pods = self._remover.going(state, clean)
        if self._binder.recall(state):
            await retry_until_done(lambda: self._binder.evict(state, grace_seconds))
            self._binder.forget(state.gang_id)
            self._end(state)
            return
        for pod in pods.values():
            state.name = state.name or pod.metadata.labels.get(names.JOB, "")
            state.namespace = state.namespace or pod.metadata.namespace
        had_pods = bool(pods or state.created)
        if had_pods:
            await retry_until_done(lambda: self._remover.let_go(state, pods, grace_seconds))
        if clean is Clean.NONE:
            await retry_until_done(lambda: self._remover.put_to_rest(state, grace_seconds))
        await retry_until_done(lambda: self._remover.remove_rest(state, grace_seconds))
        if state.name and clean is not Clean.LEAVE:  # what goes on still needs its name
            await retry_until_done(lambda: self._launcher.remove_shared(state, clean))
        elif not state.name:
            await retry_until_done(lambda: self._launcher.remove_strays(state, clean))
        self._end(state)

    def _end(self, state: GangState) -> None:
        self._gangs.end(state.gang_id)
        job_id, attempt = state.gang_id
        self._outbox.tell(GangStopped(job_id=job_id, at=self._clock.now(), attempt=attempt))


def _may_have_shrunk(before: Gang | None, gang: Gang) -> bool:
    """Whether replicas are no longer listed; of a gang that was ordered in an earlier life nobody here knows."""
    if before is None:
        return any(role.elastic for role in gang.spec.roles)
    return bool({replica.id for replica in before.replicas} - {replica.id for replica in gang.replicas})
