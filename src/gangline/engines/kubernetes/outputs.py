"""Has the results of a successful gang stored, by the mover that waits beside the lead replica's program.

The word is an annotation on the lead's pod, which the kubelet carries into the pod: no connection, no token, and giving
it twice does no harm.
"""

from gangline.engines.kubernetes.gangs import GangState
from gangline.engines.kubernetes.news import is_storing, stored
from gangline.engines.kubernetes.refusals import Refusal
from gangline.engines.kubernetes.staging import OUTPUTS_WORD, STORE
from gangline.engines.kubernetes.watch import ClusterView
from gangline.kube import PODS, KubeClient, NotFoundError, Pod
from gangline.model import ReplicaId

_GONE = Refusal(
    reason="OutputsFailed", message="the pod that held the results was gone before they were stored", permanent=True
)


class OutputStore:
    """Stores outputs. Callers repeat what a KubeError interrupts."""

    def __init__(self, client: KubeClient, view: ClusterView) -> None:
        self._client = client
        self._view = view

    async def store(self, state: GangState, lead: ReplicaId) -> Refusal | str:
        """Return when the outputs are stored, with what the mover says of it, or why they are not."""
        while (pod := self._pod(state, lead)) is not None:
            if not is_storing(pod):
                return stored(pod)
            if pod.metadata.annotations.get(OUTPUTS_WORD) != STORE:
                await self._give_word(pod)
            state.changed.clear()
            await state.changed.wait()
        return _GONE

    def _pod(self, state: GangState, lead: ReplicaId) -> Pod | None:
        pods = {key.incarnation: pod for key, pod in self._view.pods_of(state.gang_id).items() if key.replica == lead}
        return pods[max(pods)] if pods else None

    async def _give_word(self, pod: Pod) -> None:
        body = {"metadata": {"annotations": {OUTPUTS_WORD: STORE}}}
        try:
            await self._client.patch(PODS, pod.metadata.name, body, namespace=pod.metadata.namespace)
        except NotFoundError:
            return  # the watch is about to say so
