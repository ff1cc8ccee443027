"""Takes over what another operator was running: finds its pods and writes down where they are.

The job goes on where it stands. The engine then makes the pods its own when it is ordered to run the gang.
"""

from dataclasses import replace

from gangline.dialects.kubeflow import JOB_NAME_LABEL, kind_of, selector_labels
from gangline.dialects.kubeflow.status import OPERATOR_LABEL
from gangline.kube import PODS, GenericObject, KubeClient, belongs
from gangline.model import JournalRecord
from gangline.storage.kubernetes.records.record_kind import StoredJob
from gangline.storage.kubernetes.records.record_text import appended
from gangline.storage.kubernetes.records.upstream_status import taken_over


async def take_over(client: KubeClient, item: GenericObject, stored: StoredJob) -> StoredJob:
    """Return the job as it runs in its pods, and save that; as it was read if its gang is not complete."""
    kind = kind_of(stored.job.spec)
    if kind is None:
        return stored
    labels = selector_labels(stored.name, kind, stored.job.spec.lead_role)
    wanted = {name: labels[name] for name in (JOB_NAME_LABEL, OPERATOR_LABEL)}
    pods = await client.list(PODS, namespace=stored.namespace, labels=wanted)
    # One without any owner was left behind with its job's definition; the engine gives it the owner again.
    own = [pod for pod in pods.items or () if not pod.metadata.owner_references or belongs(pod.metadata, stored.owner)]
    job = taken_over(stored.job, own, item.status)
    if job is None:
        return replace(stored, inherited=False)
    entry = job.history[-1]
    record = JournalRecord(job_id=job.id, at=entry.at, reason=entry.reason, message=entry.message, phase=job.phase)
    journal = appended(stored.journal, [record])
    answer = await client.replace(stored.kind.resource, stored.with_status(job, journal), subresource="status")
    version = int(answer.metadata.resource_version)
    return replace(stored, job=replace(job, version=version), journal=journal, inherited=False)
