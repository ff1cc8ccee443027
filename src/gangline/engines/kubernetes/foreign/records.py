"""A gang of others' pods as a job object, and back. Pure.

The object holds all that must be known of the gang: which pod is which replica, and what the scheduler was told of the
nodes they need. So a controller that starts anew reads on where the last one stopped.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from gangline.dialects.native import job_to_plain
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.foreign.groups import Group, task_of
from gangline.engines.kubernetes.foreign.pod_requests import PodRequest, priority_of
from gangline.engines.kubernetes.names import FOREIGN
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod
from gangline.errors import EngineError, InvalidInputError
from gangline.kube import GenericObject, Partial, Resource
from gangline.model import (
    DEFAULT_QUEUE,
    JobId,
    JobSpec,
    NodeRule,
    Phase,
    PlacementRule,
    Policy,
    QueueName,
    ReplicaId,
    Restart,
    RoleName,
    RoleSpec,
    Success,
    Tenant,
)

JOBS = Resource(group=names.DOMAIN, plural="jobs", kind="Job", type=GenericObject)

FINALIZER = f"{names.DOMAIN}/job"
"""What the store holds a job by until its gang is gone; given at creation, it costs no write of its own."""
QUEUE = f"{names.DOMAIN}/queue"
"""On a pod: the queue it waits in."""

_TTL_SECONDS = 3600.0
_LONGEST_NAME = 63
_SYSTEM_PRIORITY = 2_000_000_000
_DEFAULT_GRACE_SECONDS = 30


class BadRecordError(EngineError):
    """A job that was made to look like a record of pods, and is none."""


class PodReference(Partial, frozen=True):
    """One pod: a name may be used again, a uid never."""

    name: str
    uid: str


class Manifest(Partial, frozen=True):
    """What a record holds besides an ordinary job: pods by replica, and things of which every node has one."""

    pods: dict[str, PodReference] = msgspec.field(default_factory=dict)
    singles: tuple[str, ...] = ()

    def replicas(self) -> dict[ReplicaId, PodReference]:
        """Which pod is which replica."""
        return {ReplicaId.parse(replica): pod for replica, pod in self.pods.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pod of a gang to be recorded, with what it asks for."""

    pod: WatchedPod
    request: PodRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A record as it is in the cluster."""

    namespace: str
    name: str
    uid: str
    job_id: JobId
    phase: Phase
    message: str
    manifest: Manifest
    being_deleted: bool = False


def members_of(spec: JobSpec) -> dict[ReplicaId, PodReference]:
    """Which pod is which replica of such a job; raises BadRecordError."""
    with _checked(spec.name):
        return msgspec.json.decode(spec.manifest_json or "{}", type=Manifest).replicas()


def object_to_record(item: GenericObject) -> Recorded:
    """Read a record; raises BadRecordError."""
    with _checked(f"{item.metadata.namespace}/{item.metadata.name}"):
        return Recorded(
            namespace=item.metadata.namespace,
            name=item.metadata.name,
            uid=item.metadata.uid,
            job_id=job_id_of(item),
            phase=Phase(item.status.get("phase") or Phase.QUEUED),
            message=item.status.get("message") or "",
            manifest=msgspec.convert(item.spec.get("manifest") or {}, Manifest),
            being_deleted=item.metadata.deletion_timestamp is not None,
        )


def job_id_of(item: GenericObject) -> JobId:
    """The id of the job that a record is: its uid. One that bears another id is nobody's record."""
    return JobId(item.metadata.uid)


@contextmanager
def _checked(name: str) -> Iterator[None]:
    """Anybody who may write jobs may write one that looks like a record."""
    try:
        yield
    except (msgspec.MsgspecError, InvalidInputError, ValueError) as error:
        raise BadRecordError(f"job '{name}' is not a record of pods: {error}") from error


def gang_to_record(members: Sequence[Member], group: Group, *, tenant: str, priority: int | None) -> dict[str, Any]:
    """Write the record of a gang. ``priority`` is the value of its group's PriorityClass, if that has one.

    It is named after its pods alone; ``name_of_group`` is the one that people look for.
    """
    spec, manifest = gang_to_job(members, group, tenant=tenant, priority=priority)
    plain: dict[str, Any] = job_to_plain(spec)
    outside = {name: plain["metadata"][name] for name in ("queue", "priority", "origin") if name in plain["metadata"]}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": spec.name,
            "namespace": members[0].pod.metadata.namespace,
            "labels": dict(spec.labels),
            "finalizers": [FINALIZER],
            "ownerReferences": [msgspec.to_builtins(group.owner)],
        },
        "spec": {**outside, "manifest": msgspec.to_builtins(manifest), **plain["spec"]},
    }


def gang_to_job(
    members: Sequence[Member], group: Group | None, *, tenant: str, priority: int | None
) -> tuple[JobSpec, Manifest]:
    """Say of a gang what the scheduler and the lifecycle must know, and which pod is which replica."""
    roles, manifest = _roles(members)
    first = members[0].pod
    values = [member.pod.spec.priority or 0 for member in members]
    grace = (member.pod.spec.termination_grace_period_seconds for member in members)
    spec = JobSpec(
        name=_name(members, group),
        tenant=Tenant(tenant),
        queue=QueueName(_queue(first, group)),
        priority=priority_of(max(values) if priority is None else priority),
        labels={FOREIGN: "true"},
        roles=tuple(roles),
        policy=Policy(
            restart=Restart.NEVER,
            success=Success.ALL,
            ttl_seconds=_TTL_SECONDS,
            grace_seconds=max(_DEFAULT_GRACE_SECONDS if seconds is None else seconds for seconds in grace),
            preemptible=max(values) < _SYSTEM_PRIORITY,
        ),
        placement=PlacementRule(within=group.within if group is not None else None),
        origin=f"{group.owner.api_version} {group.owner.kind}" if group is not None else "v1 Pod",
    )
    return spec, manifest


def name_of_group(group: Group) -> str:
    """The name of a group as that of a job, which may hold no dots and is shorter."""
    return group.name.name.replace(".", "-")[:_LONGEST_NAME].strip("-")


def _name(members: Sequence[Member], group: Group | None) -> str:
    """Named after the group or the pod, and a function of the pods: recording a gang twice makes one record."""
    plain = group.name.name if group is not None else members[0].pod.metadata.name
    uids = "+".join(sorted(member.pod.metadata.uid for member in members))
    return names.job_name(plain.replace(".", "-"), JobId(uids))


def _queue(pod: WatchedPod, group: Group | None) -> str:
    own = pod.metadata.annotations.get(QUEUE) or pod.metadata.labels.get(QUEUE)
    return own or (group.queue if group is not None else None) or DEFAULT_QUEUE


def _roles(members: Sequence[Member]) -> tuple[list[RoleSpec], Manifest]:
    """Make a role of all pods that are the same to the scheduler."""
    pods: dict[str, PodReference] = {}
    kinds: dict[tuple[object, ...], list[Member]] = {}
    for member in members:
        request = member.request
        amounts = tuple(sorted(request.resources.amounts().items()))
        nodes = (request.labels, request.terms, request.tolerations, request.claims)
        kinds.setdefault((task_of(member.pod), nodes, request.affinity_json, amounts), []).append(member)
    roles: list[RoleSpec] = []
    for alikes in kinds.values():
        name = _role_name(task_of(alikes[0].pod), taken={role.name for role in roles})
        request = alikes[0].request
        roles.append(
            RoleSpec(
                name=name,
                replicas=len(alikes),
                resources=request.resources,
                placement=request.nodes if request.nodes != NodeRule() else None,
                pod_template_json=_template(alikes),
            )
        )
        for index, member in enumerate(alikes):
            metadata = member.pod.metadata
            pods[str(ReplicaId(name, index))] = PodReference(name=metadata.name, uid=metadata.uid)
    singles = frozenset().union(*(member.request.singles for member in members))
    return roles, Manifest(pods=pods, singles=tuple(sorted(singles)))


def _template(alikes: Sequence[Member]) -> str:
    """What the scheduler must know of pods of one kind: their common labels, what they say of others, their volumes.

    The pods exist already, so nothing is ever made of it.
    """
    request = alikes[0].request
    common = set(alikes[0].pod.metadata.labels.items()).intersection(
        *(member.pod.metadata.labels.items() for member in alikes[1:])
    )
    spec = {"schedulerName": "gangline", **(json.loads(request.affinity_json) if request.affinity_json else {})}
    if request.claims:
        spec["volumes"] = [{"persistentVolumeClaim": {"claimName": claim}} for claim in request.claims]
    return json.dumps({"metadata": {"labels": dict(sorted(common))}, "spec": spec})


def _role_name(task: str, *, taken: set[RoleName]) -> RoleName:
    """Never the bare name of a task: some names of roles, such as ``ps``, mean something to a job."""
    plain = f"{task[:50]}-pods" if task else "pods"
    number = 1
    while (name := RoleName(plain if number == 1 else f"{plain}-{number}")) in taken:
        number += 1
    return name
