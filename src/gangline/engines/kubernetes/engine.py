"""The Kubernetes engine: carries out what the controller orders and reports what the cluster does.

It keeps no record of its own. What exists is what the watch shows; what should exist comes with every order; names are
a function of the order. So it may die between any two writes: the next life finds what is there and goes on.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

from gangline.engines.interface import (
    Answering,
    Confining,
    Engine,
    EngineEvent,
    LogQuery,
    PlacementRecorder,
    Releasing,
    Watchful,
)
from gangline.engines.kubernetes.background_tasks import BackgroundTasks
from gangline.engines.kubernetes.foreign.binding import Binder
from gangline.engines.kubernetes.foreign.pod_jobs import ControllerLink, PodJobs
from gangline.engines.kubernetes.foreign.service import ForeignPods
from gangline.engines.kubernetes.launching.gang_data import DataRecords
from gangline.engines.kubernetes.launching.gang_state import Gangs, GangState
from gangline.engines.kubernetes.launching.launcher import Launcher, Owners
from gangline.engines.kubernetes.launching.removal import Remover
from gangline.engines.kubernetes.logs.metric_reader import MetricReader
from gangline.engines.kubernetes.logs.pulses import Pulses
from gangline.engines.kubernetes.logs.reader import LogReader
from gangline.engines.kubernetes.logs.transfer_reader import TransferReader
from gangline.engines.kubernetes.manifests.moves import CacheClaim, check_data
from gangline.engines.kubernetes.manifests.probes import serving_address, why_not_ready
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.node_rules.pod_affinity import AffinityCompletion, TenantNamespaces
from gangline.engines.kubernetes.node_rules.volume_topology import VolumeTopology
from gangline.engines.kubernetes.orders.gang_orders import Orders
from gangline.engines.kubernetes.orders.outbox import Outbox
from gangline.engines.kubernetes.orders.outputs import OutputStore
from gangline.engines.kubernetes.orders.placement_record import gang_found, is_own_record
from gangline.engines.kubernetes.orders.pod_retry import PodRetry
from gangline.engines.kubernetes.orders.reporting import Reporter
from gangline.engines.kubernetes.watch.cluster_view import ClusterView, Watcher
from gangline.engines.kubernetes.watch.terminating import Terminating
from gangline.engines.kubernetes.watch.usage import measure
from gangline.kube import KubeClient, Pod
from gangline.lifecycle.events import GangFound
from gangline.lifecycle.watching import Pulse
from gangline.model import Clean, Clock, Gang, GangId, Job, JobId, JobSpec, LogLine, Node, ReplicaId, Usage
from gangline.model.kinds.service import Check


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
        records: DataRecords | None = None,
        cache: CacheClaim | None = None,
        keeps_logs: bool = True,
        concurrency: int = 64,
    ) -> None:
        """Make an engine.

        A tenant's jobs live in the namespace of its name, with ``prefix`` before it; given a ``namespace``, all live in
        that one. ``image`` is for jobs that name none; ``mover_image`` is Gangline's own and moves data. ``records``
        are the stores and models that jobs may name; ``cache`` keeps what was fetched, where a tenant has such a claim.
        """
        self._client = client
        self._controller = controller
        self._namespace = namespace
        self._gangs = Gangs()
        self._outbox = Outbox()
        self._background = BackgroundTasks()
        self._looking_for_stuck: asyncio.Task[None] | None = None
        self.view = ClusterView(
            controller=controller,
            changed_pod=self._pod_changed,
            changed_nodes=self._outbox.nodes_changed,
            lost_node=self._node_lost,
            ownerless=owners is None,
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
            records=records,
            cache=cache,
            concurrency=concurrency,
        )
        self._records = records
        self._remover = Remover(
            client,
            self.view,
            self._launcher,
            controller=controller,
            keeps_logs=keeps_logs,
            report=self._outbox.tell,
            concurrency=concurrency,
        )
        self._foreign = ForeignPods(client, self.view, clock=clock, namespace=namespace, prefix=prefix)
        tenant_namespaces = TenantNamespaces(namespace=namespace, prefix=prefix)
        self._affinity_completion = AffinityCompletion(
            self.view, controller=controller, tenant_namespaces=tenant_namespaces
        )
        self._volume_topology = VolumeTopology(
            client,
            self._foreign.volumes,
            self._background,
            namespace_of=tenant_namespaces.namespace_of,
            changed=self._outbox.nodes_changed,
        )
        self._terminating = Terminating(self.view)
        self._pulses = Pulses(client, clock)
        self._wire(clock, concurrency)

    def _wire(self, clock: Clock, concurrency: int) -> None:
        """Bring together those who carry out orders and those who report what comes of them."""
        tell = self._outbox.tell
        binder = Binder(
            self._client, self.view, self._remover, self._foreign, clock=clock, tell=tell, concurrency=concurrency
        )
        pod_retry = PodRetry(self.view, self._remover, self._background, run=self._run_again, tell=tell, clock=clock)
        transfers = TransferReader(self._client, self._background, report=tell, clock=clock)
        listener = MetricReader(self._client, self._background, report=tell, concurrency=concurrency)
        self._reporter = Reporter(
            self._client,
            self.view,
            self._gangs,
            self._outbox,
            self._background,
            remover=self._remover,
            binder=binder,
            listener=listener,
            transfers=transfers,
            pod_retry=pod_retry,
            clock=clock,
        )
        self._orders = Orders(
            self.view,
            self._gangs,
            self._outbox,
            self._background,
            reporter=self._reporter,
            pod_retry=pod_retry,
            launcher=self._launcher,
            remover=self._remover,
            binder=binder,
            outputs=OutputStore(self._client, self.view, self._records, transfers=transfers, listener=listener),
            volumes=self._foreign.volumes,
            clock=clock,
        )

    def _pod_changed(self, key: ReplicaKey, pod: Pod, gone: bool) -> None:  # noqa: FBT001  # the view's callback
        self._reporter.pod_changed(key, pod, gone=gone)

    async def _run_again(self, state: GangState) -> None:
        await self._orders.run(state)

    def _node_lost(self, name: str) -> None:
        self._reporter.node_lost(name)

    async def nodes(self) -> Sequence[Node]:
        """Describe every node; see Engine."""
        await self._watcher.synced()
        unordered = [gang_id for gang_id in self.view.gangs() if not self._gangs.state(gang_id).ordered]
        return self.view.describe_nodes(unordered, self._reporter.refused_places())

    async def confine(self, jobs: Collection[Job]) -> Collection[Job]:
        """Keep jobs to what their pods' templates and volumes leave of the nodes; see Confining."""
        await self._watcher.synced()
        return await self._volume_topology.confine(self._affinity_completion.complete(jobs))

    def records_placement(self, gang: Gang) -> bool:
        """Say whether a gang's pod is record enough of its placement; see PlacementRecorder."""
        return is_own_record(gang)

    async def gangs_found(self, attempts: Mapping[JobId, int]) -> Sequence[GangFound]:
        """Find gangs that were started before their placement was on record; see PlacementRecorder."""
        await self._watcher.synced()
        for job_id in attempts:
            await self._launcher.admit(job_id)
        fresh = [each for each in self.view.gangs() if each.attempt > attempts.get(each.job_id, 0)]
        found = [gang_found(gang_id, self.view.pods_of(gang_id)) for gang_id in fresh]
        return [each for each in found if each is not None]

    def terminating(self, jobs: Collection[Job]) -> Collection[Job]:
        """Show what pods still hold after their end; see Releasing."""
        return self._terminating.of(jobs)

    async def run(self, gang: Gang) -> None:
        """Make the gang's replicas exist exactly as listed; see Engine."""
        await self._watcher.synced()
        if not self._gangs.has_ended(gang.id):
            await self._launcher.admit(gang.id.job_id)
            await self._orders.run(self._gangs.state(gang.id), gang)

    async def finish(self, gang: Gang) -> None:
        """Stop what still runs and report the outputs; see Engine."""
        await self._watcher.synced()
        await self._launcher.admit(gang.id.job_id)
        self._orders.finish(self._gangs.state(gang.id), gang)

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        """End every replica and free everything; see Engine."""
        await self._watcher.synced()
        await self._launcher.admit(gang_id.job_id)
        await self._orders.stop(gang_id, grace_seconds, clean)

    async def events(self) -> AsyncIterator[EngineEvent]:
        """Report what happens; see Engine."""
        self._watcher.start()
        if self._looking_for_stuck is None:
            self._looking_for_stuck = self._background.spawn(self._reporter.look_for_stuck(), name="stuck pods")
        while True:
            yield await self._outbox.take()

    async def logs(self, query: LogQuery) -> AsyncIterator[LogLine]:
        """Read output; see Engine."""
        await self._launcher.admit(query.job_id)
        is_jobs = partial(self.view.is_jobs, query.job_id)
        reader = LogReader(self._client, query, controller=self._controller, namespace=self._namespace, is_jobs=is_jobs)
        async with aclosing(reader.read()) as lines:
            async for line in lines:
                yield line

    probed = True

    def address_of(self, gang_id: GangId, replica: ReplicaId) -> str:
        """Return where a replica of a service answers; see Answering."""
        pod = self._newest_pod(gang_id, replica)
        return serving_address(pod) if pod is not None else ""

    async def check(self, gang_id: GangId, replica: ReplicaId, check: Check) -> str:
        """Return what its kubelet says of a replica; see Answering."""
        del check  # the kubelet has it, as probes of the pod
        pod = self._newest_pod(gang_id, replica)
        return why_not_ready(pod) if pod is not None else "its pod is gone"

    def _newest_pod(self, gang_id: GangId, replica: ReplicaId) -> Pod | None:
        pods = [(key.incarnation, pod) for key, pod in self.view.pods_of(gang_id).items() if key.replica == replica]
        return max(pods, key=lambda each: each[0])[1] if pods else None

    async def usage(self) -> Usage:
        """Measure what is used now; see Engine."""
        await self._watcher.synced()
        pods = [item for gang_id in self.view.gangs() for item in self.view.pods_of(gang_id).items()]
        return await measure(self._client, nodes=await self.nodes(), pods=pods)

    async def pulses(self, gang_id: GangId) -> Mapping[ReplicaId, Pulse]:
        """Look at the running replicas of a gang; see Watchful."""
        return await self._pulses.look(self.view.pods_of(gang_id))

    async def keep_stacks(self, gang_id: GangId) -> Mapping[ReplicaId, str]:
        """Read where replicas say they are; their stacks are among their output already; see Watchful."""
        return await self._pulses.places(self.view.pods_of(gang_id))

    async def forget(self, job_id: JobId) -> None:
        """Remove everything the job left; see Engine."""
        await self._launcher.admit(job_id)
        await self._remover.forget(job_id)
        await self._launcher.forget(job_id)
        self._gangs.forget(job_id)
        self.view.dismiss(job_id)

    async def send_files(self, job_id: JobId, spec: JobSpec) -> None:
        """Put a submitted job's code and its local inputs into the cluster, whose controller has another disk.

        Raises InvalidInputError for moves that no cluster can make, and for files that are missing or too large.
        """
        check_data(spec)
        await self._launcher.send_files(Gang(id=GangId(job_id, 0), spec=spec, replicas=()))

    send_code = send_files

    async def place_foreign_pods(self, link: ControllerLink, jobs: PodJobs) -> None:
        """Record, explain and bind pods of others that name our scheduler, until cancelled; the leader runs this.

        ``link`` is the controller and ``jobs`` its store, which must be one of Kubernetes: gangs of several pods are
        recorded as job objects.
        """
        await self._watcher.synced()
        await self._foreign.run(link, jobs)

    async def close(self) -> None:
        """Let go of what this process holds; gangs go on."""
        await self._watcher.close()
        await self._foreign.close()
        await self._background.close()


_conforms: type[Engine] = KubernetesEngine
_confines: type[Confining] = KubernetesEngine
_releases: type[Releasing] = KubernetesEngine
_watches: type[Watchful] = KubernetesEngine
_answers: type[Answering] = KubernetesEngine
_records_placements: type[PlacementRecorder] = KubernetesEngine
