"""Has the results of a successful gang stored, by the mover that waits beside the lead replica's program.

The word is an annotation on the lead's pod, which the kubelet carries into the pod: no connection, no token, and giving
it twice does no harm.
"""

from gangline.engines.kubernetes.launching.gang_data import DataRecords
from gangline.engines.kubernetes.launching.gang_state import GangState
from gangline.engines.kubernetes.logs.metric_reader import MetricReader
from gangline.engines.kubernetes.logs.transfer_reader import TransferReader
from gangline.engines.kubernetes.manifests.moves import STORE
from gangline.engines.kubernetes.manifests.staging import OUTPUTS_CONTAINER, OUTPUTS_WORD
from gangline.engines.kubernetes.refusals import Refusal
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.engines.kubernetes.watch.pod_events import Stored, is_storing, stored
from gangline.engines.registering import insist
from gangline.errors import GanglineError
from gangline.kube import PODS, KubeClient, NotFoundError, Pod
from gangline.model import ReplicaId

_GONE = Refusal(
    reason="OutputsFailed", message="the pod that held the results was gone before they were stored", permanent=True
)


class OutputStore:
    """Stores outputs. Callers repeat what a KubeError interrupts."""

    def __init__(
        self,
        client: KubeClient,
        view: ClusterView,
        records: DataRecords | None,
        *,
        transfers: TransferReader,
        listener: MetricReader,
    ) -> None:
        self._client = client
        self._transfers = transfers
        self._listener = listener
        self._view = view
        self._records = records

    async def store(self, state: GangState, lead: ReplicaId) -> Refusal | str:
        """Return when the outputs are stored, with what the mover says of it, or why they are not.

        The kubelet stops a collector after the mover, and whoever sees the job end is to find its last numbers.
        """
        while (pod := self._pod(state, lead)) is not None:
            if not is_storing(pod):
                await self._listener.collected(state.gang_id)
                ending = stored(pod)
                if not isinstance(ending, Refusal) and ending.report:
                    self._transfers.tell(ending.report, state.gang_id)
                return ending if isinstance(ending, Refusal) else await self._register(state, ending)
            if pod.metadata.annotations.get(OUTPUTS_WORD) != STORE:
                await self._give_word(pod)
            self._transfers.begin(state.gang_id, pod, OUTPUTS_CONTAINER)
            state.changed.clear()
            await state.changed.wait()
        return _GONE

    async def _register(self, state: GangState, ending: Stored) -> Refusal | str:
        """Register the models among the outputs before anybody hears that they are stored; doing so twice is once."""
        for number, (name, at, kept) in ending.models.items():
            if self._records is None:
                return Refusal(reason="OutputsFailed", message="models are not kept here", permanent=True)
            try:
                await insist(self._records, state.gang_id.job_id, number, name, kept, at=at)
            except GanglineError as error:
                return Refusal(reason="OutputsFailed", message=str(error), permanent=False)
        return ending.note

    def _pod(self, state: GangState, lead: ReplicaId) -> Pod | None:
        pods = {key.incarnation: pod for key, pod in self._view.pods_of(state.gang_id).items() if key.replica == lead}
        return pods[max(pods)] if pods else None

    async def _give_word(self, pod: Pod) -> None:
        body = {"metadata": {"annotations": {OUTPUTS_WORD: STORE}}}
        try:
            await self._client.patch(PODS, pod.metadata.name, body, namespace=pod.metadata.namespace)
        except NotFoundError:
            return  # the watch is about to say so
