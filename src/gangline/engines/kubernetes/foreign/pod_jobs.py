"""A single pod of others as a job that is written down nowhere: the pod itself is its record.

What a job object would say of it, the pod says already: what it asks for, whether it waits, where it runs, its end.
A controller that starts anew makes the same job of the same pod, placed where the pod is bound. So a pod costs the
server no more than the binding. Gangs of several pods have a job object: which of them start together is said nowhere
else.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import msgspec

from gangline.engines.kubernetes.foreign.groups import Group
from gangline.engines.kubernetes.foreign.records import Manifest, Member, Recorded, gang_to_job
from gangline.engines.kubernetes.names import POD_JOB_PREFIX
from gangline.engines.kubernetes.watch.watched_pods import is_bound
from gangline.lifecycle import advance, new_job
from gangline.lifecycle.events import GangPlaced
from gangline.model import Explanation, Job, JobId, NodeName, Timestamp


class PodJobs(Protocol):
    """Where the controller finds the jobs that stand for one pod each; a store that forgets them when it ends."""

    def follow_pods(self, changed: Callable[[Job], None]) -> None:
        """Call back with every one of them that the controller changes."""
        ...

    def keep_pod(self, job: Job) -> None:
        """Keep a new one."""
        ...

    def drop_pod(self, job_id: JobId) -> None:
        """Forget one, if it is there."""
        ...


class ControllerLink(Protocol):
    """What is asked of the controller, and what it is told."""

    def explanation(self, job_id: JobId) -> Explanation | None:
        """Say why a job waits, as the last scheduling cycle found it."""
        ...

    def changed(self, job_id: JobId) -> None:
        """Look at this record again."""
        ...


def pod_to_job(
    member: Member, group: Group | None, *, tenant: str, priority: int | None, now: Timestamp
) -> tuple[Job, Manifest]:
    """Make the job of a pod: one that waits, or, for a pod that has its node, one that was given just that."""
    spec, manifest = gang_to_job([member], group, tenant=tenant, priority=priority)
    policy = replace(spec.policy, ttl_seconds=None)  # it is forgotten when it is over
    spec = replace(spec, policy=policy, manifest_json=msgspec.json.encode(manifest).decode())
    job = new_job(JobId(f"{POD_JOB_PREFIX}{member.pod.metadata.uid}"), spec, now)
    if is_bound(member.pod):
        place = NodeName(member.pod.spec.node_name)
        placed = GangPlaced(job_id=job.id, at=now, placement=dict.fromkeys(manifest.replicas(), place))
        job = advance(job, placed).job
    return job, manifest


def job_to_record(job: Job, manifest: Manifest, namespace: str) -> Recorded:
    """Describe such a job like any other record of pods."""
    return Recorded(
        namespace=namespace,
        name=job.name,
        uid="",
        job_id=job.id,
        phase=job.phase,
        message=job.message,
        manifest=manifest,
    )
