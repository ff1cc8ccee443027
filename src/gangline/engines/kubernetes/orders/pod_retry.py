"""Creates pods again, in their place, that a kubelet turned away for something that its node was still releasing.

A kubelet counts a pod until it is done with all of it, some moments after the API server shows the pod's end: whoever
follows on a full node may come too early. The record still counts the replica there, so the place stays its own while
it tries again. Only when that has failed for a while is the replica reported as lost, and its gang placed elsewhere.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gangline.engines.kubernetes.background_tasks import BackgroundTasks, retry_until_done
from gangline.engines.kubernetes.launching.gang_state import GangState
from gangline.engines.kubernetes.launching.removal import Remover
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.refusals import is_passing_refusal
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.kube import Pod
from gangline.lifecycle.events import ReplicaDelayed
from gangline.model import Clock

_PAUSES_SECONDS = (1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0)


def pause_before(tries: int) -> float | None:
    """How long to wait before a refused pod is created again; None when it has been tried often enough. Pure."""
    return _PAUSES_SECONDS[tries] if tries < len(_PAUSES_SECONDS) else None


def _is_refused(pod: Pod) -> bool:
    return pod.status.phase == "Failed" and is_passing_refusal(pod.status.reason)


class PodRetry:
    """Brings refused pods back. ``run`` gives the last order for a gang again, which creates what is missing."""

    def __init__(
        self,
        view: ClusterView,
        remover: Remover,
        background: BackgroundTasks,
        *,
        run: Callable[[GangState], Awaitable[None]],
        tell: Callable[[ReplicaDelayed], None],
        clock: Clock,
    ) -> None:
        self._view = view
        self._remover = remover
        self._background = background
        self._run = run
        self._tell = tell
        self._clock = clock

    def takes(self, state: GangState, key: ReplicaKey, pod: Pod, *, gone: bool) -> bool:
        """Whether a refused pod will be created again, or has been: nothing need be told of it then."""
        uid = pod.metadata.uid
        if uid in state.replaced:
            state.changed.set()
            return True
        pause = pause_before(state.refusals.get(key, 0))
        started = (key, "started") in state.told
        if not _is_refused(pod) or gone or started or pause is None or state.over or key in state.leaving:
            return False
        if not state.ordered:
            return True  # it is heard again when somebody orders its gang
        state.refusals[key] = state.refusals.get(key, 0) + 1
        self._tell(
            ReplicaDelayed(
                job_id=key.gang_id.job_id,
                at=self._clock.now(),
                attempt=key.gang_id.attempt,
                replica=key.replica,
                incarnation=key.incarnation,
                message=f"{pod.spec.node_name} still has to release what another pod held there: {pod.status.message}",
            )
        )
        self.replace(state, key, pod, pause)
        return True

    def replace(self, state: GangState, key: ReplicaKey, pod: Pod, pause: float = 0.0) -> None:
        """Delete a pod, and create the replica's anew once it is gone."""
        state.replaced.add(pod.metadata.uid)
        _forget(state, key)
        self._background.spawn(self._again(state, key, pod, pause), name=f"create {pod.metadata.name} again")

    async def _again(self, state: GangState, key: ReplicaKey, pod: Pod, pause: float) -> None:
        await asyncio.sleep(pause)
        await retry_until_done(lambda: self._remover.ask_to_end([pod], 0))
        while (present := self._view.pods_of(state.gang_id).get(key)) and present.metadata.uid == pod.metadata.uid:
            state.changed.clear()
            await state.changed.wait()
        async with state.lock:
            # A launch that was under way may have noted only now that it had created the pod: the news was quicker.
            _forget(state, key)
        await retry_until_done(lambda: self._run(state))


def _forget(state: GangState, key: ReplicaKey) -> None:
    """Make it as if the pod had never been created: whichever order comes first once it is gone creates it again."""
    state.created.discard(key)
    state.seen.discard(key)
