"""What a changed object asks for: to halt or resume, to scale, or to be another job altogether."""

from dataclasses import replace

from gangline import operations
from gangline.api.kubernetes.job_objects import is_suspended
from gangline.api.kubernetes.plain import Plain
from gangline.api.kubernetes.translating import translate
from gangline.dialects.kubeflow import Kind
from gangline.model import Job, JobSpec, RoleName
from gangline.operations import Desk


async def change_job(desk: Desk, job: Job, kind: Kind, version: str, *, before: Plain, after: Plain) -> Job:
    """Carry the difference of two objects over to the job; what cannot be changed any more is refused as a whole."""
    wanted = translate(after, kind, version)
    spec = wanted.spec
    scale = _scale(translate(before, kind, version).spec, spec) if job.attempt else {}
    if job.attempt and not _differs(translate(before, kind, version).spec, spec):
        # What runs stays as it is; only what the job says of itself is new.
        spec = replace(job.spec, labels=spec.labels, manifest_json=spec.manifest_json)
    job = await operations.amend(desk, job.spec.tenant, job.id, spec)
    if scale:
        job = await operations.scale(desk, job.spec.tenant, job.id, scale)
    if wanted.suspended and not is_suspended(job) and not job.finished:
        job = await operations.halt(desk, job.spec.tenant, job.id)
    elif is_suspended(job) and not wanted.suspended:
        job = await operations.resume(desk, job.spec.tenant, job.id)
    return job


def _scale(before: JobSpec, after: JobSpec) -> dict[RoleName, int]:
    """The replica counts that changed in elastic roles."""
    counts = {role.name: role.replicas for role in before.roles if role.elastic}
    return {role.name: role.replicas for role in after.roles if counts.get(role.name, role.replicas) != role.replicas}


def _differs(before: JobSpec, after: JobSpec) -> bool:
    """Whether anything but labels, the manifest and the size of elastic roles has changed."""
    sizes = {role.name: role.replicas for role in before.roles}
    roles = tuple(
        replace(role, replicas=sizes[role.name]) if role.elastic and role.name in sizes else role
        for role in after.roles
    )
    return replace(after, roles=roles, labels=before.labels, manifest_json=before.manifest_json) != before
