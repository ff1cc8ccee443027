"""The cluster as it was last seen: one watch over all pods, one over all nodes, and sums kept up to date as they come.

The driver asks it what exists; it asks nobody and decides nothing. Foreign use is kept as a sum per node, so that a
change costs the same however many pods there are.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gangline.engines.kubernetes.names import JOB_ID, ReplicaKey, replica_of
from gangline.engines.kubernetes.node_rules.capacity import is_lost, is_ready, node_to_model, occupies, taken
from gangline.engines.kubernetes.node_rules.unmanaged_pods import UnmanagedPods
from gangline.engines.kubernetes.watch.watched_pods import WATCHED_PODS, WatchedPod
from gangline.kube import (
    NODES,
    Applied,
    Change,
    Deleted,
    KubeClient,
    Metadata,
    Node,
    Owner,
    Pod,
    belongs,
)
from gangline.kube.objects import AnyObject
from gangline.model import GangId, JobId, Resources
from gangline.model import Node as ModelNode

PodListener = Callable[[ReplicaKey, Pod, bool], None]
"""Called with a pod of ours and whether it is gone."""


@dataclass(slots=True)
class _Foreign:
    """What others use of one node."""

    used: Resources = field(default_factory=Resources)
    pods: int = 0


@dataclass(frozen=True, slots=True)
class _Share:
    node: str
    requests: Resources


class ClusterView:
    """What is known of nodes and pods. ``changed_pod`` and ``changed_nodes`` are called as news comes in.

    Labels say which replica a pod would be; whose it is, its owner says (``kube.ownership``). So a pod is a replica
    only of a job that was admitted with its owner, and until then one of others. With ``ownerless`` jobs have no
    objects, and labels must do.
    """

    def __init__(
        self,
        *,
        controller: str,
        changed_pod: PodListener,
        changed_nodes: Callable[[], None],
        lost_node: Callable[[str], None],
        scheduler_name: str = "gangline",
        ownerless: bool = False,
    ) -> None:
        self._controller = controller
        self._ownerless = ownerless
        self._scheduler_name = scheduler_name
        self._changed_pod = changed_pod
        self._changed_nodes = changed_nodes
        self._lost_node = lost_node
        self.nodes: dict[str, Node] = {}
        self.unmanaged_pods = UnmanagedPods()
        """Pods that run and are no replicas."""
        self._gangs: dict[GangId, dict[ReplicaKey, Pod]] = {}
        self._changes: dict[GangId, int] = {}
        self._numbers = itertools.count(1)
        self._shares: dict[tuple[str, str], _Share] = {}
        self._foreign: dict[str, _Foreign] = {}
        self._models: dict[str, tuple[Node, Resources, int, ModelNode]] = {}
        self._owners: dict[JobId, Owner] = {}
        self._claimants: dict[JobId, dict[str, Pod]] = {}
        """Pods that bear the id of a job and are not known to be its own, by uid."""
        self._keys: dict[str, ReplicaKey] = {}
        """The pods that count as replicas, by uid: what one once was it stays, whatever is made of its labels."""
        self.named: dict[str, WatchedPod] = {}
        """Pods of others that name our scheduler, by uid."""
        self.changed_named: Callable[[WatchedPod], None] = _ignore
        """Called with every such pod that came, changed or went."""
        self._offers: Mapping[str, int] = {}

    def find_named(self, namespace: str, uid: str) -> WatchedPod | None:
        """Return a pod of others that names our scheduler, if it is there and of that namespace."""
        pod = self.named.get(uid)
        return pod if pod is not None and pod.metadata.namespace == namespace else None

    def admit(self, job_id: JobId, owner: Owner) -> None:
        """Count the pods of a job's owner as its replicas from now on; those that are there are not told of."""
        self._owners[job_id] = owner
        for pod in tuple(self._claimants.get(job_id, {}).values()):
            if (key := self._recognise(pod)) is not None:
                self._count(pod, None)
                self._gangs.setdefault(key.gang_id, {})[key] = pod
                self._changes[key.gang_id] = next(self._numbers)

    def dismiss(self, job_id: JobId) -> None:
        """Count no further pods as replicas of a job that is forgotten."""
        self._owners.pop(job_id, None)

    def is_jobs(self, job_id: JobId, metadata: Metadata) -> bool:
        """Whether an object belongs to a job that was admitted."""
        if self._ownerless:
            return metadata.labels.get(JOB_ID) == job_id
        owner = self._owners.get(job_id)
        return owner is not None and belongs(metadata, owner)

    def claim(self, uid: str, key: ReplicaKey) -> None:
        """Count a pod of others as a replica from now on, so that it is not counted twice."""
        if self._keys.get(uid) == key:
            return
        self.release(uid)
        self._keys[uid] = key
        if (pod := self.named.get(uid)) is not None:
            self._count(pod, None)
            self.apply_pod(pod)

    def release(self, uid: str) -> None:
        """Count a pod of others as somebody else's again."""
        key, pod = self._keys.pop(uid, None), self.named.get(uid)
        if key is not None:
            self._forget_replica(key)
            if pod is not None:
                self.apply_pod(pod)

    def offer(self, amounts: Mapping[str, int]) -> None:
        """Say what every node has for pods of others besides what its kubelet says: one of each port that they use."""
        if amounts != self._offers:
            self._offers = amounts
            self._models.clear()
            self._changed_nodes()

    def pods_of(self, gang_id: GangId) -> Mapping[ReplicaKey, Pod]:
        """Return the pods of one attempt that exist."""
        return self._gangs.get(gang_id, {})

    def last_change_of(self, gang_id: GangId) -> int:
        """Return the number of the last change to an attempt's pods: as long as it is the same, they are."""
        return self._changes.get(gang_id, 0)

    def gangs(self) -> Iterable[GangId]:
        """Return every attempt that has pods."""
        return tuple(self._gangs)

    def is_node_lost(self, name: str) -> bool:
        """Whether nobody has heard of a node for too long, or it was removed; never for a pod that has none yet."""
        return bool(name) and is_lost(self.nodes.get(name))

    def is_node_open(self, name: str) -> bool:
        """Whether a node is well and nobody has closed it to new pods."""
        node = self.nodes.get(name)
        return node is not None and is_ready(node) and not node.spec.unschedulable

    def describe_nodes(self, unordered: Iterable[GangId], refused: Mapping[str, Resources]) -> list[ModelNode]:
        """Describe all nodes by name. ``unordered`` are gangs of ours that nobody ordered: they count as foreign.

        ``refused`` is what kubelets turned away lately: it counts as taken, for somebody took it unseen.
        """
        extra: dict[str, _Foreign] = {}
        for gang_id in unordered:
            for pod in self.pods_of(gang_id).values():
                if occupies(pod):
                    _add(extra.setdefault(pod.spec.node_name, _Foreign()), taken(pod))
        for name, requests in refused.items():
            _add(extra.setdefault(name, _Foreign()), requests)
        return [self._describe(name, extra.get(name)) for name in sorted(self.nodes)]

    def _describe(self, name: str, extra: _Foreign | None) -> ModelNode:
        """Describe one node; the same object as before if nothing changed, which lets the scheduler skip work."""
        node, foreign = self.nodes[name], self._foreign.get(name, _Foreign())
        used, pods = foreign.used, foreign.pods
        if extra is not None:
            used, pods = used + extra.used, pods + extra.pods
        known = self._models.get(name)
        if known is not None and known[0] is node and known[1] == used and known[2] == pods:
            return known[3]
        model = node_to_model(node, foreign=used, foreign_pods=pods, synthetic_resources=self._offers)
        if known is not None and known[3] == model:
            model = known[3]
        self._models[name] = (node, used, pods, model)
        return model

    def apply_node(self, node: Node) -> None:
        """Take in a node's present state."""
        name = node.metadata.name
        before = self.nodes.get(name)
        self.nodes[name] = node
        if before is None or _matters(before) != _matters(node):
            self._changed_nodes()
        if before is not None and is_lost(node) and not is_lost(before):
            self._lost_node(name)

    def drop_node(self, node: Node) -> None:
        """Take in that a node was removed."""
        name = node.metadata.name
        self.nodes.pop(name, None)
        self._models.pop(name, None)
        self._changed_nodes()
        self._lost_node(name)

    def apply_pod(self, pod: Pod) -> None:
        """Take in a pod's present state."""
        key = self._keys.get(pod.metadata.uid) or self._recognise(pod)
        if key is None:
            self._count(pod, _Share(pod.spec.node_name, taken(pod)) if occupies(pod) else None)
        else:
            pods = self._gangs.setdefault(key.gang_id, {})
            before = pods.get(key)
            pods[key] = pod
            self._changes[key.gang_id] = next(self._numbers)
            self._changed_pod(key, pod, False)
            if before is not None and occupies(before) and not occupies(pod):
                self._changed_nodes()

    def drop_pod(self, pod: Pod) -> None:
        """Take in that a pod is gone."""
        key = self._keys.pop(pod.metadata.uid, None)
        if key is None:
            self._forget_claimant(pod)
            self._count(pod, None)
        else:
            self._forget_replica(key)
            self._changed_pod(key, pod, True)

    def apply_watched(self, pod: WatchedPod) -> None:
        """Take in a pod's present state, and tell of it if it is one of others that we are to place."""
        named = self._is_named(pod)
        if named:
            self.named[pod.metadata.uid] = pod
        self.apply_pod(pod)
        if named:
            self.changed_named(pod)

    def drop_watched(self, pod: WatchedPod) -> None:
        """Take in that a pod is gone, and tell of it likewise."""
        named = self.named.pop(pod.metadata.uid, None) is not None
        self.drop_pod(pod)
        if named:
            self.changed_named(pod)

    def _is_named(self, pod: WatchedPod) -> bool:
        ours = replica_of(pod.metadata.labels, self._controller) is not None
        return pod.spec.scheduler_name == self._scheduler_name and not ours

    def _recognise(self, pod: Pod) -> ReplicaKey | None:
        """Say which replica a pod is that was none so far."""
        key = replica_of(pod.metadata.labels, self._controller)
        if key is None:
            return None
        job_id, uid = key.gang_id.job_id, pod.metadata.uid
        if not self.is_jobs(job_id, pod.metadata):
            self._claimants.setdefault(job_id, {})[uid] = pod
            return None
        self._forget_claimant(pod)
        self._keys[uid] = key
        return key

    def _forget_claimant(self, pod: Pod) -> None:
        job_id = JobId(pod.metadata.labels.get(JOB_ID, ""))
        claimants = self._claimants.get(job_id, {})
        claimants.pop(pod.metadata.uid, None)
        if not claimants:
            self._claimants.pop(job_id, None)

    def _forget_replica(self, key: ReplicaKey) -> None:
        pods = self._gangs.get(key.gang_id, {})
        gone = pods.pop(key, None)
        self._changes[key.gang_id] = next(self._numbers)
        if not pods:
            self._gangs.pop(key.gang_id, None)
            self._changes.pop(key.gang_id, None)
        if gone is not None and occupies(gone):
            self._changed_nodes()

    def _count(self, pod: Pod, share: _Share | None) -> None:
        name = (pod.metadata.namespace, pod.metadata.name)
        if share is None:
            self.unmanaged_pods.drop(pod)
        else:
            self.unmanaged_pods.put(pod)
        before = self._shares.get(name)
        if before == share:
            return
        if before is not None:
            foreign = self._foreign[before.node]
            foreign.used, foreign.pods = foreign.used - before.requests, foreign.pods - 1
            del self._shares[name]
        if share is not None:
            _add(self._foreign.setdefault(share.node, _Foreign()), share.requests)
            self._shares[name] = share
        self._changed_nodes()


def _ignore(pod: WatchedPod) -> None:
    del pod


def _add(foreign: _Foreign, requests: Resources) -> None:
    foreign.used, foreign.pods = foreign.used + requests, foreign.pods + 1


def _matters(node: Node) -> tuple[object, ...]:
    """What of a node the scheduler can see; heartbeats change the rest several times a minute."""
    return node.status.allocatable, node.metadata.labels, node.spec, is_ready(node), is_lost(node)


class Watcher:
    """Keeps a view up to date until it is closed."""

    def __init__(self, client: KubeClient, view: ClusterView, *, namespace: str | None = None) -> None:
        self._client = client
        self._view = view
        self._namespace = namespace
        self._tasks: list[asyncio.Task[None]] = []
        self._nodes_synced = asyncio.Event()
        self._pods_synced = asyncio.Event()

    def start(self) -> None:
        """Begin to watch, unless that has happened."""
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._follow_nodes(), name="watch nodes"),
                asyncio.create_task(self._follow_pods(), name="watch pods"),
            ]

    async def synced(self) -> None:
        """Wait until everything that exists has been seen."""
        self.start()
        await self._nodes_synced.wait()
        await self._pods_synced.wait()

    async def close(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow_nodes(self) -> None:
        await self._client.follow(NODES, _taker(self._view.apply_node, self._view.drop_node, self._nodes_synced))

    async def _follow_pods(self) -> None:
        # Nodes first: whether a pod's node is lost is part of what the pod means.
        await self._nodes_synced.wait()
        take = _taker(self._view.apply_watched, self._view.drop_watched, self._pods_synced)
        await self._client.follow(WATCHED_PODS, take, namespace=self._namespace)


def _taker(
    apply: Callable[[AnyObject], None], drop: Callable[[AnyObject], None], synced: asyncio.Event
) -> Callable[[Change[AnyObject]], None]:
    """Return what hands the changes of one collection to the view."""

    def take(change: Change[AnyObject]) -> None:
        match change:
            case Applied(item):
                apply(item)
            case Deleted(item):
                drop(item)
            case _:
                synced.set()

    return take
