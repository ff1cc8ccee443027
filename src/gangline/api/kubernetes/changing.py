"""What a changed object asks for: to halt or resume, to scale, or to be another job altogether."""

from dataclasses import replace

from gangline import operations
from gangline.api.kubernetes.job_objects import is_suspended
from gangline.api.kubernetes.plain import Plain
from gangline.api.kubernetes.translating import translate
from gangline.dialects.kubeflow import Kind
from gangline.model import Job, JobSpec, RoleName
from gangline.operations import OperationContext


async def change_job(
    context: OperationContext, job: Job, kind: Kind, version: str, *, before: Plain, after: Plain
) -> Job:
    """Carry the difference of two objects over to the job; what cannot be changed any more is refused as a whole."""
    known, wanted = translate(before, kind, version).spec, translate(after, kind, version)
    spec, scale = wanted.spec, _scale(known, wanted.spec)
    if not _differs(known, spec) and (job.attempt or not scale):
        # Only what the job says of itself is new; what options overruled when it was submitted stays overruled.
        spec = replace(job.spec, labels=spec.labels, manifest_json=spec.manifest_json)
    started = job.attempt > 0
    job = await operations.amend(context, job.spec.tenant, job.id, spec)
    if scale and started:
        job = await operations.scale(context, job.spec.tenant, job.id, scale)
    if wanted.suspended and not is_suspended(job) and not job.finished:
        job = await operations.halt(context, job.spec.tenant, job.id)
    elif is_suspended(job) and not wanted.suspended:
        job = await operations.resume(context, job.spec.tenant, job.id)
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
