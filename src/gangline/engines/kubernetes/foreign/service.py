"""Sees to it that every pod of others that names our scheduler is recorded, explained and, once placed, bound.

Runs beside the controller of the leader. It writes job objects and never decides where a pod runs: the scheduling cycle
does, over all jobs at once. ``binding`` does what comes of it.
"""

import asyncio
import itertools
import logging
from collections.abc import Collection, Mapping, Sequence

from gangline.engines.kubernetes.foreign.event_recorder import PodEventRecorder, readable
from gangline.engines.kubernetes.foreign.gathering import Incomplete, gather
from gangline.engines.kubernetes.foreign.group_status import differs, status_of
from gangline.engines.kubernetes.foreign.group_watch import GroupWatch
from gangline.engines.kubernetes.foreign.groups import GROUP_RESOURCES, Group, GroupKind, GroupName, group_of
from gangline.engines.kubernetes.foreign.pod_jobs import ControllerLink, PodJobs, pod_to_job
from gangline.engines.kubernetes.foreign.pod_requests import InexpressibleError, pod_request_of
from gangline.engines.kubernetes.foreign.record_store import RecordStore
from gangline.engines.kubernetes.foreign.records import Member, Recorded, gang_to_record, name_of_group
from gangline.engines.kubernetes.names import is_pod_job
from gangline.engines.kubernetes.node_rules.volumes import Volumes
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod, is_bound, runs, waits
from gangline.errors import InvalidInputError
from gangline.kube import PRIORITY_CLASSES, ApiError, KubeClient, KubeError, NotFoundError
from gangline.model import WAITING_PHASES, Clock, JobId, Phase

_log = logging.getLogger(__name__)
_GATHER_SECONDS = 0.02
"""Owners make the pods of one group one by one; looking at once would find half of them."""
_TICK_SECONDS = 1.0
_AGAIN_TICKS = 3
"""How often claims are read again: nothing is watched for them, and each costs a few requests."""
_AT_ONCE = 32
_FAILED_TICKS = 5
"""How long a record that could not be carried out stands before its pods are recorded anew."""

Unit = GroupName | str
"""What is looked at together: a group, or the uid of a pod that has none."""


class ForeignPods:
    """Gathers, records and explains. One per engine; ``run`` is its life."""

    def __init__(
        self,
        client: KubeClient,
        view: ClusterView,
        *,
        clock: Clock,
        namespace: str | None,
        prefix: str,
    ) -> None:
        self._client = client
        self._view = view
        self._clock = clock
        self._prefix = prefix
        self.volumes = Volumes(client)
        self.event_recorder = PodEventRecorder(client, clock)
        self.records = RecordStore(client, namespace=namespace, changed=self._record_changed)
        self._groups = GroupWatch(client, namespace=namespace, changed=self._group_changed, wanted=self._wants)
        self._without_subresource: set[GroupKind] = set()
        self._units: dict[Unit, dict[str, WatchedPod]] = {}
        self._dirty: set[Unit] = set()
        self._again: set[Unit] = set()
        """Units that wait for something nobody tells us of."""
        self._awake = asyncio.Event()
        self._failed: dict[JobId, int] = {}
        self._priorities: dict[str, int] = {}

    async def run(self, link: ControllerLink, jobs: PodJobs) -> None:
        """Work until cancelled, for the controller at ``link``, which finds the jobs of single pods in ``jobs``."""
        self.records.open(jobs, link)
        self._view.changed_named = self._pod_changed
        for pod in tuple(self._view.named.values()):
            self._pod_changed(pod)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.records.follow(), name="follow records")
                tasks.create_task(self._work(), name="gather pods of others")
                tasks.create_task(self._tick(link), name="explain pods of others")
        finally:
            await self._groups.close()

    async def close(self) -> None:
        """Leave unsaid what has not been said."""
        await self.event_recorder.close()

    # News in ------------------------------------------------------------------------------------------------

    def _pod_changed(self, pod: WatchedPod) -> None:
        uid = pod.metadata.uid
        if not pod.metadata.namespace.startswith(self._prefix):
            return
        unit: Unit = group_of(pod) or uid
        members = self._units.setdefault(unit, {})
        if uid in self._view.named:
            members[uid] = pod
        else:
            members.pop(uid, None)
            self.event_recorder.forget(uid)
        if not members:
            del self._units[unit]
        self._mark(unit)

    def _record_changed(self, record: Recorded) -> None:
        for reference in record.manifest.pods.values():
            pod = self._view.find_named(record.namespace, reference.uid)
            if pod is not None:
                self._mark(group_of(pod) or reference.uid)
        self._publish_resources_for(record)

    def _group_changed(self, kind: GroupKind, namespace: str, name: str) -> None:
        for unit in self._units:
            if isinstance(unit, GroupName) and (unit.kind, unit.namespace, unit.name) == (kind, namespace, name):
                self._mark(unit)

    def _wants(self, kind: GroupKind) -> bool:
        return any(isinstance(unit, GroupName) and unit.kind is kind for unit in self._units)

    def _mark(self, unit: Unit) -> None:
        self._dirty.add(unit)
        self._awake.set()

    # Gangs to records ---------------------------------------------------------------------------------------

    async def _work(self) -> None:
        await self.records.synced.wait()
        slots = asyncio.Semaphore(_AT_ONCE)

        async def settle(unit: Unit) -> None:
            async with slots:
                try:
                    await self._settle(unit)
                except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                    _log.exception("%s cannot be seen to; trying again", unit)
                    self._again.add(unit)

        while True:
            await self._awake.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._awake.clear()
            dirty, self._dirty = self._dirty, set()
            await asyncio.gather(*(settle(unit) for unit in dirty))

    async def _settle(self, unit: Unit) -> None:
        """Record what of this unit can start, and say of the rest why it cannot."""
        self._again.discard(unit)
        pods = tuple(self._units.get(unit, {}).values())
        group = self._groups.find(unit) if isinstance(unit, GroupName) else None
        if isinstance(unit, GroupName) and group is None:
            self._explain(pods, f"There is no {unit}.")
            return
        gangs = gather(group, pods, self._recorded(pods))
        if isinstance(gangs, Incomplete):
            self._explain(pods, f"{gangs.message}.")
            gangs = []
        for gang in (*gangs, *self._unrecorded(pods)):
            try:
                await self._record(gang, group)
            except (InexpressibleError, InvalidInputError) as error:
                self._explain(gang, f"{error}.")
            except ApiError as error:
                self._postpone(unit, gang, f"It cannot be recorded: {error.message}.")
        if group is not None:
            await self._write_status(group, pods)

    def _unrecorded(self, pods: Sequence[WatchedPod]) -> list[tuple[WatchedPod]]:
        """The pods that have their node from an earlier life, and no record but themselves."""
        known = self._recorded(pods)
        return [(pod,) for pod in pods if runs(pod) and pod.metadata.uid not in known]

    def _recorded(self, pods: Sequence[WatchedPod]) -> Collection[str]:
        """The pods of the same namespace that have a record."""
        return self.records.pods_in(pods[0].metadata.namespace) if pods else ()

    async def _record(self, gang: Sequence[WatchedPod], group: Group | None) -> None:
        namespace = gang[0].metadata.namespace
        members = [Member(pod=pod, request=pod_request_of(pod, alone=len(gang) == 1 and waits(pod))) for pod in gang]
        tenant = namespace.removeprefix(self._prefix)
        priority = await self._priority(group) if group is not None else None
        if group is None or len(members) == 1:
            now = self._clock.now()
            job, manifest = pod_to_job(members[0], group, tenant=tenant, priority=priority, now=now)
            record = self.records.keep(job, manifest, namespace)
        else:
            body = gang_to_record(members, group, tenant=tenant, priority=priority)
            record = await self.records.write(body, called=name_of_group(group))
        self._publish_resources_for(record)

    async def _priority(self, group: Group) -> int | None:
        """The value of the group's own priority; None if it has none and its pods' counts."""
        if group.priority_value is not None or group.priority_class is None:
            return group.priority_value
        if group.priority_class not in self._priorities:
            listed = (await self._client.list(PRIORITY_CLASSES)).items or ()
            self._priorities = {item.metadata.name: item.value for item in listed}
        return self._priorities.get(group.priority_class)

    def _publish_resources_for(self, record: Recorded) -> None:
        """Most pods need nothing that the scheduler must be told of, and cost nothing here."""
        if record.manifest.singles:
            self._publish_resources()

    def _publish_resources(self) -> None:
        """Tell the scheduler what nodes have for the pods that wait, and for those that keep a thing to themselves."""
        singles = (name for record in self.records.particular() for name in record.manifest.singles)
        self._view.offer(dict.fromkeys(singles, 1))

    async def _write_status(self, group: Group, pods: Sequence[WatchedPod]) -> None:
        item = self._groups.object_of(group.name)
        known = self._recorded(pods)
        recorded = any(pod.metadata.uid in known for pod in pods if waits(pod))
        status = status_of(group, pods, recorded=recorded, now=self._clock.now())
        if item is None or not differs(status, item.status):
            return
        try:
            await self._patch_status(group.name, status)
        except KubeError as error:
            # Nothing depends on it: the next change of a pod writes it again.
            _log.debug("the status of %s could not be written: %s", group.name, error)

    async def _patch_status(self, name: GroupName, status: Mapping[str, object]) -> None:
        """Write a group's status. Volcano's PodGroups have no subresource for it: it is a field like any other."""
        resource, patch = GROUP_RESOURCES[name.kind], {"status": status}
        if name.kind not in self._without_subresource:
            try:
                await self._client.patch(resource, name.name, patch, namespace=name.namespace, subresource="status")
                return
            except NotFoundError:
                pass  # either that, or the group is gone, which the next request tells
        await self._client.patch(resource, name.name, patch, namespace=name.namespace)
        self._without_subresource.add(name.kind)

    # Explanations and leftovers -----------------------------------------------------------------------------

    def _postpone(self, unit: Unit, pods: Sequence[WatchedPod], message: str) -> None:
        self._again.add(unit)
        self._explain(pods, message)

    def _explain(self, pods: Sequence[WatchedPod], message: str) -> None:
        for pod in pods:
            if waits(pod):
                self.event_recorder.waits(pod, message)

    async def _tick(self, link: ControllerLink) -> None:
        """Look after what no news comes of: reasons, and records that are of no use any more."""
        await self.records.synced.wait()
        for tick in itertools.count():
            for unit in self._again if tick % _AGAIN_TICKS == 0 else ():
                self._mark(unit)
            for record in self.records.unsettled():
                try:
                    await self._look_after(record, link)
                except KubeError as error:
                    _log.debug("record %s is looked at again later: %s", record.name, error)
            self._publish_resources()
            await asyncio.sleep(_TICK_SECONDS)

    async def _look_after(self, record: Recorded, link: ControllerLink) -> None:
        pods = [self._view.find_named(record.namespace, each.uid) for each in record.manifest.pods.values()]
        present = [pod for pod in pods if pod is not None]
        if record.being_deleted:
            return
        if record.phase in WAITING_PHASES:
            why = link.explanation(record.job_id)
            if why is not None:
                self._explain(present, readable(why))
        if self._is_useless(record, present):
            await self.records.remove(record)

    def _is_useless(self, record: Recorded, present: Sequence[WatchedPod]) -> bool:
        """Whether a record only stands in the way: nothing is left of its pods, or they could not be bound."""
        if not present:
            idle = record.phase in WAITING_PHASES or record.phase is Phase.HALTED
            return idle or (record.phase is Phase.FAILED and is_pod_job(record.job_id))
        if record.phase is not Phase.FAILED or not any(waits(pod) for pod in present):
            self._failed.pop(record.job_id, None)
            return record.phase is Phase.FAILED and is_pod_job(record.job_id)
        ticks = self._failed[record.job_id] = self._failed.get(record.job_id, 0) + 1
        if ticks == 1:
            self._explain([pod for pod in present if not is_bound(pod)], record.message)
        return ticks > _FAILED_TICKS
