"""Taking in a job of any dialect with what it brings along: objects that it refers to, and stores of its data."""

import json
from dataclasses import replace

from gangline import operations
from gangline.dialects import Translation
from gangline.model import Job, JobId
from gangline.operations import OperationContext


async def take_in(context: OperationContext, job_id: JobId, job: Translation, *, halted: bool = False) -> Job:
    """Submit a job for the tenant that it names, after its things are there."""
    tenant = job.spec.tenant
    for document in job.objects_json:
        await operations.bring_object(context, tenant, json.loads(document))
    for store in job.stores:
        await operations.keep_store(context, replace(store, tenant=tenant))
    return await operations.submit(context, job_id, job.spec, halted=halted or job.suspended, notes=job.notes)
