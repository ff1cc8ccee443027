"""Lets pods go: keeps the end of their logs, asks them to stop, and makes sure that they are really gone.

A pod on a node that does not answer is never confirmed gone by its kubelet; it is removed by force, as nothing else
would ever free the job. docs/kubernetes.md says what that means for a node that is only cut off.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.launching.gang_state import GangState
from gangline.engines.kubernetes.launching.launcher import Launcher
from gangline.engines.kubernetes.logs import saved_logs
from gangline.engines.kubernetes.logs.saved_logs import SavedLog
from gangline.engines.kubernetes.names import Part, ReplicaKey
from gangline.engines.kubernetes.node_rules.capacity import FINISHED_PHASES
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.kube import PODS, ConflictError, KubeClient, KubeError, NotFoundError, Pod
from gangline.model import Clean, JobId, Metric

_log = logging.getLogger(__name__)
_READ_SECONDS = 10.0
_LOOK_SECONDS = 1.0
_UNSEEN_SECONDS = 5.0
_REST_SECONDS = 15.0


class Remover:
    """Removes pods of gangs. ``report`` receives the numbers found in their logs."""

    def __init__(
        self,
        client: KubeClient,
        view: ClusterView,
        launcher: Launcher,
        *,
        controller: str,
        keeps_logs: bool,
        report: Callable[[Metric], None],
        concurrency: int,
    ) -> None:
        self._client = client
        self._view = view
        self._launcher = launcher
        self._controller = controller
        self._keeps_logs = keeps_logs
        self._report = report
        self._slots = asyncio.Semaphore(concurrency)

    async def let_go(self, state: GangState, pods: Mapping[ReplicaKey, Pod], grace_seconds: float) -> None:
        """Ask pods to end, keep what they wrote until then, and return when that is done; they may linger a moment."""
        fresh = {key: pod for key, pod in pods.items() if key not in state.collected}
        state.leaving.update(pods)
        known = await self._read(state, fresh)
        endings = [
            asyncio.create_task(saved_logs.to_the_end(self._client, fresh[key], lines)) for key, lines in known.items()
        ]
        await self.ask_to_end(pods.values(), grace_seconds)
        await self._keep(state, list(known), endings, grace_seconds)

    async def collect(self, state: GangState, key: ReplicaKey, pod: Pod) -> None:
        """Keep the log of a pod that somebody else is deleting."""
        known = await self._read(state, {key: pod})
        endings = [asyncio.create_task(saved_logs.to_the_end(self._client, pod, lines)) for lines in known.values()]
        await self._keep(state, list(known), endings, pod.spec.termination_grace_period_seconds or 0)

    async def ask_to_end(self, pods: Iterable[Pod], grace_seconds: float) -> None:
        """Delete pods, each with this grace; those on lost nodes at once. Asking again may shorten the grace."""
        # Zero would remove the object without waiting for the kubelet, and so say "gone" of something that runs.
        grace = max(1, math.ceil(grace_seconds))
        await asyncio.gather(*(self._delete(pod, grace) for pod in pods))

    async def forget(self, job_id: JobId) -> None:
        """Delete the pods that were kept when a job ended."""
        gangs = [gang_id for gang_id in self._view.gangs() if gang_id.job_id == job_id]
        await self.ask_to_end([pod for gang_id in gangs for pod in self._view.pods_of(gang_id).values()], 0)

    def going(self, state: GangState, clean: Clean) -> dict[ReplicaKey, Pod]:
        """Return the pods of an attempt that must go now; the others are noted as kept."""
        pods = self._view.pods_of(state.gang_id)
        state.kept |= {key for key, pod in pods.items() if key not in state.leaving and _stays(pod, clean)}
        return {key: pod for key, pod in pods.items() if key not in state.kept}

    async def put_to_rest(self, state: GangState, grace_seconds: float) -> None:
        """End the kept pods that still run without removing them, so that they hold nothing and can be looked at.

        A deadline that has passed is the one way to have a kubelet do that. A pod that does not end in time goes.
        """
        running = {key: pod for key, pod in self._view.pods_of(state.gang_id).items() if key in state.kept}
        running = {key: pod for key, pod in running.items() if not has_ended(pod)}
        await asyncio.gather(*(self._pass_deadline(pod) for pod in running.values()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds + _REST_SECONDS):
                while self._still_running(state, running):
                    state.changed.clear()
                    await state.changed.wait()
        still_running = self._still_running(state, running)
        state.kept -= still_running.keys()
        await self.ask_to_end(still_running.values(), grace_seconds)

    def _still_running(self, state: GangState, asked: Iterable[ReplicaKey]) -> dict[ReplicaKey, Pod]:
        pods = self._view.pods_of(state.gang_id)
        return {key: pods[key] for key in asked if key in pods and not has_ended(pods[key])}

    async def _pass_deadline(self, pod: Pod) -> None:
        async with self._slots:
            try:
                patch = {"metadata": {"uid": pod.metadata.uid}, "spec": {"activeDeadlineSeconds": 1}}
                await self._client.patch(PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace)
            except (NotFoundError, ConflictError):
                return

    async def remove_rest(self, state: GangState, grace_seconds: float) -> None:
        """Delete pods that the watch showed only after the order came, then wait for the end of all."""
        marked = state.leaving | state.kept
        pods = self._view.pods_of(state.gang_id)
        await self.ask_to_end([pod for key, pod in pods.items() if key not in marked], grace_seconds)
        await self.until_gone(state)

    async def until_gone(self, state: GangState) -> None:
        """Wait until no pod of the attempt exists, whatever that takes."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not self._is_gone(state):
            await self._force(state)
            if state.created - state.seen and loop.time() - began > _UNSEEN_SECONDS:
                await self._look(state)
            state.changed.clear()
            if self._is_gone(state):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await state.changed.wait()

    def _is_gone(self, state: GangState) -> bool:
        return not (self._view.pods_of(state.gang_id).keys() - state.kept) and state.created <= state.seen

    async def _look(self, state: GangState) -> None:
        """Ask the server itself about pods that were created and never seen: a watch may skip what lived briefly."""
        labels = {**names.gang_labels(self._controller, state.gang_id), names.PART: Part.REPLICA}
        found = await self._client.list(PODS, namespace=state.namespace, labels=labels)
        if not any(self._view.is_jobs(state.gang_id.job_id, pod.metadata) for pod in found.items or ()):
            state.created.clear()

    async def _force(self, state: GangState) -> None:
        lost = [
            pod
            for key, pod in self._view.pods_of(state.gang_id).items()
            if key not in state.kept and self._view.is_node_lost(pod.spec.node_name)
        ]
        await asyncio.gather(*(self._delete(pod, 0) for pod in lost))

    async def _delete(self, pod: Pod, grace: int) -> None:
        lost = self._view.is_node_lost(pod.spec.node_name)
        async with self._slots:
            try:
                await self._client.delete(
                    PODS,
                    pod.metadata.name,
                    namespace=pod.metadata.namespace,
                    grace_seconds=0 if lost else grace,
                    uid=pod.metadata.uid,
                )
            except (NotFoundError, ConflictError):
                return  # it is gone; another pod may bear its name by now

    async def _read(self, state: GangState, pods: Mapping[ReplicaKey, Pod]) -> dict[ReplicaKey, list[bytes]]:
        """Read what pods wrote so far: done before they are asked to end, for a pod takes its log along."""
        if not self._keeps_logs:
            return {}
        state.collected.update(pods)
        reachable = {key: pod for key, pod in pods.items() if not self._view.is_node_lost(pod.spec.node_name)}
        lines = await asyncio.gather(*(self._read_one(pod) for pod in reachable.values()))
        return dict(zip(reachable, lines, strict=True))

    async def _read_one(self, pod: Pod) -> list[bytes]:
        async with self._slots:
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    return await saved_logs.so_far(self._client, pod)
            except TimeoutError:
                _log.warning("the log of %s cannot be kept: its node does not answer", pod.metadata.name)
                return []

    async def _keep(
        self,
        state: GangState,
        keys: list[ReplicaKey],
        endings: "list[asyncio.Task[list[bytes]]]",
        grace_seconds: float,
    ) -> None:
        if not self._keeps_logs or not state.name:  # of a gang without a name no pod was ever seen
            return
        if endings:
            await asyncio.wait(endings, timeout=grace_seconds + _READ_SECONDS)
        for ending in endings:
            ending.cancel()
        results = await asyncio.gather(*endings, return_exceptions=True)
        logs = [
            SavedLog(key=key, text=b"\n".join(lines))
            for key, lines in zip(keys, results, strict=True)
            if isinstance(lines, list)
        ]
        for metric in saved_logs.saved_metrics(logs):
            self._report(metric)
        packs = saved_logs.pack(
            state.gang_id,
            logs,
            name=names.job_name(state.name, state.gang_id.job_id),
            namespace=state.namespace,
            controller=self._controller,
            owner=await self._launcher.reference_to(state.gang_id.job_id),
        )
        try:
            await saved_logs.keep(self._client, packs)
        except KubeError as error:
            # Freeing machines matters more than the output; the user is told where to look.
            _log.warning("the logs of %s could not be kept: %s", state.gang_id, error)


def may_outlive(pod: Pod) -> bool:
    """Whether a pod may have been left on purpose when its job ended."""
    return names.CLEAN in pod.metadata.annotations and pod.status.phase in FINISHED_PHASES


def has_ended(pod: Pod) -> bool:
    """Whether nothing of a pod runs any more."""
    # A kubelet tells the end of the containers at once, that of the pod when all is tidied up.
    containers = pod.status.container_statuses
    return pod.status.phase in FINISHED_PHASES or (
        bool(containers) and all(container.state.terminated is not None for container in containers)
    )


def _stays(pod: Pod, clean: Clean) -> bool:
    """Whether a pod is left when its job has ended; one that never started has nothing to show."""
    if pod.metadata.deletion_timestamp is not None or clean is Clean.ALL:
        return False
    return has_ended(pod) or clean is Clean.LEAVE or (clean is Clean.NONE and pod.status.phase == "Running")
