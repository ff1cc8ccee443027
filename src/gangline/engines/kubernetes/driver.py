"""The Kubernetes engine: carries out what the controller orders and reports what the cluster does.

It keeps no record of its own. What exists is what the watch shows; what should exist comes with every order; names are
a function of the order. So it may die between any two writes: the next life finds what is there and goes on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from gangline.engines.interface import Engine, EngineEvent, LogLine, LogQuery, NodesChanged, Usage
from gangline.engines.kubernetes import kept_logs, names
from gangline.engines.kubernetes.capacity import pod_requests
from gangline.engines.kubernetes.foreign.binding import Binder
from gangline.engines.kubernetes.foreign.records import is_foreign
from gangline.engines.kubernetes.foreign.service import Explain, ForeignPods
from gangline.engines.kubernetes.foreign.volumes import claims_of_gang
from gangline.engines.kubernetes.gangs import Gangs, GangState
from gangline.engines.kubernetes.launch_order import startable, until_workers_reachable
from gangline.engines.kubernetes.launching import Launcher, Owners
from gangline.engines.kubernetes.logs import LogReader
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.news import Circumstances, main_state, pod_news, refused_by_node, replica_lost
from gangline.engines.kubernetes.outputs import OutputStore
from gangline.engines.kubernetes.refusals import Refusal, RefusedError
from gangline.engines.kubernetes.removal import Remover, may_outlive
from gangline.engines.kubernetes.staging import check_data
from gangline.engines.kubernetes.starts import Starts
from gangline.engines.kubernetes.stuck import stuck_reason
from gangline.engines.kubernetes.usage import measure
from gangline.engines.kubernetes.watch import ClusterView, Watcher
from gangline.kube import KubeClient, KubeError, Pod
from gangline.lifecycle.events import (
    DownloadStarted,
    GangFailed,
    GangStopped,
    OutputsStored,
    ReplicaExited,
    ReplicaLost,
    ReplicaStarted,
)
from gangline.model import Clean, Clock, Gang, GangId, GangReplica, JobId, JobSpec, Metric, Node, ReplicaId, Resources

_log = logging.getLogger(__name__)
_REFUSAL_SECONDS = 30.0
"""How long a place that a kubelet refused counts as taken."""
_STUCK_SECONDS = 10.0
_RETRY_SECONDS = 0.5
_LISTEN_SECONDS = 2.0
"""How long after its start one begins to listen to a replica: a burst of starts has other needs first."""
_METRIC_STREAMS = 200
"""How many replicas are listened to for their numbers at once; the others' are read when they end."""


class KubernetesEngine:
    """Runs gangs as pods. See Engine for the contract; ``docs/kubernetes.md`` for what a user sees of it."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Clock,
        controller: str = "gangline",
        namespace: str | None = None,
        prefix: str = "",
        image: str | None = None,
        mover_image: str | None = None,
        code_directory: Path | None = None,
        owners: Owners | None = None,
        keeps_logs: bool = True,
        concurrency: int = 64,
    ) -> None:
        """Make an engine.

        A tenant's jobs live in the namespace of its name, with ``prefix`` before it; given a ``namespace``, all live in
        that one. ``image`` is for jobs that name none; ``mover_image`` moves data, where jobs' own images cannot.
        """
        self._client = client
        self._clock = clock
        self._controller = controller
        self._namespace = namespace
        self._gangs = Gangs()
        self._queue: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._nodes_news_queued = False
        self._refused: dict[str, tuple[float, Resources]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: set[ReplicaKey] = set()
        self._looking_for_stuck: asyncio.Task[None] | None = None
        self.view = ClusterView(
            controller=controller,
            changed_pod=self._pod_changed,
            changed_nodes=self._nodes_changed,
            lost_node=self._node_lost,
        )
        self._watcher = Watcher(client, self.view, namespace=namespace)
        self._launcher = Launcher(
            client,
            self.view,
            controller=controller,
            namespace=namespace,
            prefix=prefix,
            image=image,
            mover_image=mover_image,
            code_directory=code_directory,
            owners=owners,
            concurrency=concurrency,
        )
        self._starts = Starts(self._tell)
        self._outputs = OutputStore(client, self.view)
        self._remover = Remover(
            client,
            self.view,
            self._launcher,
            controller=controller,
            keeps_logs=keeps_logs,
            report=self._tell,
            concurrency=concurrency,
        )
        self._foreign = ForeignPods(client, self.view, clock=clock, namespace=namespace, prefix=prefix)
        self._binder = Binder(
            client, self.view, self._remover, self._foreign, clock=clock, tell=self._tell, concurrency=concurrency
        )

    # The contract ------------------------------------------------------------------------------------------

    async def nodes(self) -> Sequence[Node]:
        """Describe every node; see Engine."""
        await self._watcher.synced()
        now = asyncio.get_running_loop().time()
        self._refused = {name: entry for name, entry in self._refused.items() if entry[0] > now}
        strangers = [gang_id for gang_id in self.view.gangs() if not self._gangs.state(gang_id).ordered]
        return self.view.describe_nodes(strangers, {name: amount for name, (_, amount) in self._refused.items()})

    async def run(self, gang: Gang) -> None:
        """Make the gang's replicas exist exactly as listed; see Engine."""
        await self._watcher.synced()
        if not self._gangs.has_ended(gang.id):
            await self._order(self._gangs.state(gang.id), gang)

    async def finish(self, gang: Gang) -> None:
        """Stop what still runs and report the outputs; see Engine."""
        await self._watcher.synced()
        state = self._gangs.state(gang.id)
        self._adopt(state, gang)
        running = {key: pod for key, pod in self.view.pods_of(gang.id).items() if main_state(pod).terminated is None}
        self._spawn(self._finish(state, running, gang.spec.policy.grace_seconds), name=f"finish {gang.id}")

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        """End every replica and free everything; see Engine."""
        await self._watcher.synced()
        state = self._gangs.state(gang_id)
        if state.taking_down is not None and not state.taking_down.done():
            if self._binder.knows(gang_id):
                return  # its pods have their own grace period, which nobody here may shorten
            # Pods the first order is still reading are not marked yet; asking twice does no harm.
            await self._remover.ask_to_end(self._remover.going(state, clean).values(), grace_seconds)
            return
        state.taking_down = self._spawn(self._take_down(state, grace_seconds, clean), name=f"stop {gang_id}")
        state.changed.set()

    async def events(self) -> AsyncIterator[EngineEvent]:
        """Report what happens; see Engine."""
        self._watcher.start()
        self._looking_for_stuck = self._looking_for_stuck or self._spawn(self._look_for_stuck(), name="stuck pods")
        while True:
            event = await self._queue.get()
            if isinstance(event, NodesChanged):
                self._nodes_news_queued = False
            yield event

    def logs(self, query: LogQuery) -> AsyncIterator[LogLine]:
        """Read output; see Engine."""
        reader = LogReader(self._client, query, controller=self._controller, namespace=self._namespace)
        return reader.read()

    async def usage(self) -> Usage:
        """Measure what is used now; see Engine."""
        await self._watcher.synced()
        pods = [item for gang_id in self.view.gangs() for item in self.view.pods_of(gang_id).items()]
        return await measure(self._client, nodes=await self.nodes(), pods=pods)

    async def forget(self, job_id: JobId) -> None:
        """Remove everything the job left; see Engine."""
        await self._remover.forget(job_id, namespace=self._namespace)

    async def send_files(self, job_id: JobId, spec: JobSpec) -> None:
        """Put a submitted job's code and its local inputs into the cluster, whose controller has another disk.

        Raises InvalidInputError for moves that no cluster can make, RefusedError for files missing or too large.
        """
        check_data(spec)
        await self._launcher.send_files(Gang(id=GangId(job_id, 0), spec=spec, replicas=()))

    send_code = send_files

    async def place_foreign_pods(self, explain: Explain) -> None:
        """Record, explain and bind pods of others that name our scheduler, until cancelled; the leader runs this.

        Needs the Kubernetes store, in which it records them as jobs. ``explain`` is the controller's.
        """
        await self._watcher.synced()
        await self._foreign.run(explain)

    async def close(self) -> None:
        """Let go of what this process holds; gangs go on."""
        await self._watcher.close()
        await self._foreign.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Orders ------------------------------------------------------------------------------------------------

    async def _order(self, state: GangState, gang: Gang | None = None) -> None:
        """Carry out an order; without one, the last that came."""
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
                refusal = error.refusal
                self._fail(state, refusal.reason, refusal.message, permanent=refusal.permanent)

    async def _launch(self, state: GangState, gang: Gang) -> None:
        self._adopt(state, gang)
        await self._launcher.adopt(state, gang)
        missing = self._missing(state, gang)
        self._release_unlisted(state, gang)
        now = startable(gang, missing, self.view.pods_of(gang.id))
        if now:
            await self._foreign.volumes.give_nodes(state.namespace, claims_of_gang(gang, now, self.view.nodes))
            await self._launcher.launch(state, gang, now)
        waited, state.deferred = state.deferred, len(now) < len(missing)
        if state.deferred and not waited:
            self._spawn(self._launch_rest(state), name=f"launcher of {gang.id}")

    async def _launch_rest(self, state: GangState) -> None:
        while state.deferred and await until_workers_reachable(state, self.view):
            await self._insistently(lambda: self._order(state))

    def _adopt(self, state: GangState, gang: Gang) -> None:
        unheard = {} if state.ordered else dict(self.view.pods_of(gang.id))
        if unheard:
            self._nodes_changed()  # its pods counted as somebody else's until now
        state.gang = gang
        state.name = gang.spec.name
        state.namespace = self._launcher.namespace_of(gang)
        for earlier in self.view.gangs():
            if earlier.job_id == gang.id.job_id and earlier.attempt < gang.id.attempt:
                # A pod of an attempt that was over, created by a life that ended in between.
                self._delete_late(self.view.pods_of(earlier).values())
        for key, pod in unheard.items():
            self._pod_changed(key, pod, False)

    def _missing(self, state: GangState, gang: Gang) -> list[GangReplica]:
        """Return the replicas that have no pod and never had one; those that lost theirs are reported."""
        present = self.view.pods_of(gang.id)
        missing = []
        for replica in gang.replicas:
            key = ReplicaKey(gang.id, replica.id, replica.incarnation)
            if key in present or key in state.created - state.seen:
                continue
            if replica.started or key in state.seen:
                self._lose(state, key)
            else:
                missing.append(replica)
        return missing

    def _release_unlisted(self, state: GangState, gang: Gang) -> None:
        listed = {ReplicaKey(gang.id, replica.id, replica.incarnation) for replica in gang.replicas}
        surplus = {
            key: pod
            for key, pod in self.view.pods_of(gang.id).items()
            if key not in listed and key not in state.leaving
        }
        if surplus:
            state.leaving.update(surplus)
            release = self._remover.let_go(state, surplus, gang.spec.policy.grace_seconds)
            self._spawn(release, name=f"shrink {gang.id}")

    async def _finish(self, state: GangState, pods: dict[ReplicaKey, Pod], grace_seconds: float) -> None:
        await self._insistently(lambda: self._remover.let_go(state, pods, grace_seconds))
        while any(key in self.view.pods_of(state.gang_id) for key in pods):
            state.changed.clear()
            await state.changed.wait()
        if not await self._store_outputs(state):
            return
        if state.first(None, "stored"):
            job_id, attempt = state.gang_id
            self._tell(OutputsStored(job_id=job_id, at=self._clock.now(), attempt=attempt))

    async def _store_outputs(self, state: GangState) -> bool:
        """Have the results stored, if there are any to store; a failure is told."""
        gang = state.gang
        if gang is None or not gang.spec.outputs:
            return True
        lead = ReplicaId(gang.spec.lead_role, 0)
        failure: Refusal | None = None

        async def store() -> None:
            nonlocal failure
            failure = await self._outputs.store(state, lead)

        await self._insistently(store)
        if failure is not None and state.taking_down is None:
            self._fail(state, failure.reason, failure.message, permanent=failure.permanent)
        return failure is None

    async def _take_down(self, state: GangState, grace_seconds: float, clean: Clean) -> None:
        async with state.lock:  # a launch under way ends first: what it created must be known to be removed
            pods = self._remover.going(state, clean)
        if self._binder.recall(state):
            await self._insistently(lambda: self._binder.evict(state, grace_seconds))
            self._binder.forget(state.gang_id)
            self._end(state)
            return
        for pod in pods.values():
            state.name = state.name or pod.metadata.labels.get(names.JOB, "")
            state.namespace = state.namespace or pod.metadata.namespace
        had_pods = bool(pods or state.created)
        if had_pods:
            await self._insistently(lambda: self._remover.let_go(state, pods, grace_seconds))
        if clean is Clean.NONE:
            await self._insistently(lambda: self._remover.put_to_rest(state, grace_seconds))
        await self._insistently(lambda: self._remover.remove_rest(state, grace_seconds))
        if state.name and clean is not Clean.LEAVE:  # what goes on still needs its name
            await self._insistently(lambda: self._launcher.remove_shared(state))
        elif not state.name:
            await self._insistently(lambda: self._launcher.remove_strays(state.gang_id.job_id))
        self._end(state)

    def _end(self, state: GangState) -> None:
        self._gangs.end(state.gang_id)
        job_id, attempt = state.gang_id
        self._tell(GangStopped(job_id=job_id, at=self._clock.now(), attempt=attempt))

    async def _insistently(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something that must be done, however long the API server is away."""
        while True:
            try:
                await act()
                return
            except KubeError as error:
                _log.warning("the cluster refuses for now; trying again: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    # News --------------------------------------------------------------------------------------------------

    def _pod_changed(self, key: ReplicaKey, pod: Pod, gone: bool) -> None:  # noqa: FBT001  # the view's callback
        if self._binder.knows(key.gang_id):
            state = self._gangs.state(key.gang_id)
            self._binder.pod_changed(state, key, pod, gone=gone)
            if refused_by_node(pod) and state.first(key, "refused"):
                self._remember_refusal(pod)
            return
        if self._gangs.has_ended(key.gang_id):
            if not gone and not self._gangs.is_kept(key):
                self._delete_late([pod])
            return
        state = self._gangs.state(key.gang_id)
        if not state.ordered and may_outlive(pod):
            return  # it is heard when somebody orders its gang; most likely its job ended long ago
        state.seen.add(key)
        state.changed.set()
        if state.taking_down is not None and not gone and key not in state.leaving | state.kept:
            state.leaving.add(key)
            self._delete_late([pod])
        around = Circumstances(
            now=self._clock.now(),
            ordered_away=key in state.leaving,
            gone=gone,
            node_lost=self.view.is_node_lost(pod.spec.node_name),
        )
        self._tell_news(state, key, pod, around)
        if pod.metadata.deletion_timestamp is not None and not gone and key not in state.leaving | state.collected:
            self._spawn(self._remover.collect(state, key, pod), name=f"keep log of {pod.metadata.name}")

    def _tell_news(self, state: GangState, key: ReplicaKey, pod: Pod, around: Circumstances) -> None:
        for event in pod_news(key, pod, around):
            if isinstance(event, GangFailed):
                self._fail(state, event.reason, event.message, permanent=event.permanent)
            elif isinstance(event, DownloadStarted):
                if state.first(None, "downloading"):
                    self._tell(event)
            elif state.first(key, "started" if isinstance(event, ReplicaStarted) else "ended"):
                self._note(state, key, pod, event)
                if isinstance(event, ReplicaStarted):
                    self._starts.note(state, event)
                else:
                    self._starts.flush(key.gang_id)
                    self._tell(event)

    def _note(self, state: GangState, key: ReplicaKey, pod: Pod, event: EngineEvent) -> None:
        if isinstance(event, ReplicaLost) and refused_by_node(pod):
            self._remember_refusal(pod)
        if isinstance(event, ReplicaStarted) and self._is_lead(state, key) and len(self._listening) < _METRIC_STREAMS:
            self._listening.add(key)
            self._spawn(self._listen(key, pod), name=f"metrics of {pod.metadata.name}")
        if isinstance(event, ReplicaExited | ReplicaLost):
            self._listening.discard(key)

    def _is_lead(self, state: GangState, key: ReplicaKey) -> bool:
        return state.gang is not None and key.replica == ReplicaId(state.gang.spec.lead_role, 0)

    async def _listen(self, key: ReplicaKey, pod: Pod) -> None:
        await asyncio.sleep(_LISTEN_SECONDS)
        if key not in self._listening:
            return  # it has ended already; its numbers are read with the rest of its log
        try:
            async for metric in kept_logs.metrics_of(self._client, key, pod):
                self._tell(metric)
        except KubeError as error:
            # Nothing is lost: the numbers are in the log and are read again when the pod goes.
            _log.debug("numbers of %s are read later: %s", pod.metadata.name, error)

    def _node_lost(self, name: str) -> None:
        for gang_id in self.view.gangs():
            for key, pod in tuple(self.view.pods_of(gang_id).items()):
                if pod.spec.node_name == name:
                    self._pod_changed(key, pod, False)

    def _nodes_changed(self) -> None:
        if not self._nodes_news_queued:
            self._nodes_news_queued = True
            self._queue.put_nowait(NodesChanged())

    def _remember_refusal(self, pod: Pod) -> None:
        """Count the refused place as taken for a while: whoever took it may not be in sight yet."""
        loop = asyncio.get_running_loop()
        self._refused[pod.spec.node_name] = (loop.time() + _REFUSAL_SECONDS, pod_requests(pod))
        self._nodes_changed()
        loop.call_later(_REFUSAL_SECONDS, self._nodes_changed)

    def _lose(self, state: GangState, key: ReplicaKey) -> None:
        if state.first(key, "ended"):
            self._tell(replica_lost(key, "its pod is gone", at=self._clock.now()))

    def _fail(self, state: GangState, reason: str, message: str, *, permanent: bool = False) -> None:
        if state.first(None, "failed"):
            state.changed.set()
            job_id, attempt = state.gang_id
            self._tell(
                GangFailed(
                    job_id=job_id,
                    at=self._clock.now(),
                    attempt=attempt,
                    reason=reason,
                    message=message,
                    permanent=permanent,
                )
            )

    async def _look_for_stuck(self) -> None:
        """Find pods that wait for something that will not come, such as a volume: only their events tell."""
        while True:
            await asyncio.sleep(_STUCK_SECONDS)
            for state in self._gangs.all():
                for key, pod in tuple(self.view.pods_of(state.gang_id).items()):
                    if key in state.leaving or (None, "failed") in state.told or self._binder.knows(state.gang_id):
                        continue
                    reason = await stuck_reason(self._client, pod, now=self._clock.now())
                    if reason is not None:
                        self._fail(state, reason.reason, f"{key.replica}: {reason.message}")

    def _tell(self, event: EngineEvent | Metric) -> None:
        self._queue.put_nowait(event)

    def _delete_late(self, pods: Iterable[Pod]) -> None:
        late = tuple(pods)
        self._spawn(self._insistently(lambda: self._remover.ask_to_end(late, 0)), name="late pods")

    def _spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed", task.get_name(), exc_info=error)


_conforms: type[Engine] = KubernetesEngine
