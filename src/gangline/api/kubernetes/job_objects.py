"""A job as the Kubeflow object its user wrote, with what a cluster adds: identity, version and status. Pure."""

import json

from gangline.api.kubernetes.plain import Plain, given, part, text
from gangline.dialects.katib.batch_job import BATCH, ORIGIN
from gangline.dialects.kubeflow import GROUP, KINDS, Kind, job_to_status, kind_of, time_text
from gangline.dialects.trainer import API_VERSION as TRAINER_VERSION
from gangline.dialects.trainer import ORIGIN as TRAINER_ORIGIN
from gangline.dialects.trainer import PODS as TRAIN_JOB
from gangline.model import Job, JobSpec, Phase
from gangline.model.record import owner_of

PLURALS = {kind.plural: kind for kind in KINDS.values()}
_PREFIX = 58
"""How much of ``generateName`` is kept, so that a name is no longer than a label: as a cluster does it."""
_SUSPENDED = frozenset({Phase.HALTING, Phase.HALTED})
_SERVED = {"v1": frozenset(PLURALS), "v2beta1": frozenset({KINDS["MPIJob"].plural})}
"""Which kinds are served in which version; one object is shown in whichever version is asked for."""


def served_kind(version: str, plural: str) -> Kind | None:
    """The kind behind a path, if it is served in that version."""
    return PLURALS[plural] if plural in _SERVED.get(version, frozenset()) else None


def served_versions() -> dict[str, list[Kind]]:
    """Every version with its kinds, for discovery."""
    return {version: [PLURALS[plural] for plural in sorted(plurals)] for version, plurals in _SERVED.items()}


def pod_kind_of(spec: JobSpec) -> Kind | None:
    """The kind whose pods clients see: Kubeflow's, the Job of ``batch/v1`` that a trial of Katib is, a TrainJob."""
    return kind_of(spec) or {ORIGIN: BATCH, TRAINER_ORIGIN: TRAIN_JOB}.get(spec.origin or "")


def version_and_uid(job: Job, kind: Kind) -> tuple[str, str]:
    """The ``apiVersion`` and the uid of the object that clients see of a job; a TrainJob is a record that has one."""
    if kind is TRAIN_JOB:
        return TRAINER_VERSION, str(owner_of(job.id))
    return "batch/v1" if kind is BATCH else f"{GROUP}/v1", str(job.id)


def is_shown(job: Job, kind: Kind | None = None) -> bool:
    """Whether a job is there for clients: of that kind (of any, without one) and not on its way out."""
    found = kind_of(job.spec) if kind is not None else pod_kind_of(job.spec)
    return found is not None and not job.deleting and kind in (None, found)


def job_to_object(job: Job, kind: Kind, version: str = "v1") -> Plain:
    """Write the whole object."""
    manifest = json.loads(job.spec.manifest_json or "{}")
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": kind.name,
        "metadata": _metadata(job, manifest),
        "spec": _spec(job, kind, manifest),
        "status": job_to_status(job, kind.name),
    }


def owner_reference(job: Job, kind: Kind) -> Plain:
    """Point from a pod to its job."""
    version, uid = version_and_uid(job, kind)
    return {
        "apiVersion": version,
        "kind": kind.name,
        "name": job.name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_suspended(job: Job) -> bool:
    """Whether the job rests, or is about to, until its user wakes it."""
    return job.phase in _SUSPENDED and not job.requeue


def _metadata(job: Job, manifest: Plain) -> Plain:
    return given(
        {
            "name": job.name,
            "namespace": job.spec.tenant,
            "uid": job.id,
            "resourceVersion": str(job.version),
            "generation": 1,
            "creationTimestamp": time_text(job.created_at),
            "labels": dict(job.spec.labels) or None,
            "annotations": part(manifest, "metadata", "annotations") or None,
        }
    )


def _spec(job: Job, kind: Kind, manifest: Plain) -> Plain:
    """The spec as it was written, with the two fields that requests change: ``suspend`` and the replica counts."""
    spec = part(manifest, "spec")
    policy = part(spec, "runPolicy")
    if policy.get("suspend", False) != is_suspended(job):
        spec["runPolicy"] = {**policy, "suspend": is_suspended(job)}
    scale = {kind.type_of(role): count for role, count in job.scale}
    replicas = part(spec, kind.replicas_field)
    for name in replicas:
        if name in scale:
            replicas[name] = {**part(replicas, name), "replicas": scale[name]}
    return {**spec, kind.replicas_field: replicas} if scale else spec


def named(document: Plain, *, suffix: str) -> str | None:
    """The name a new object asks for: its own, or one generated from ``generateName``."""
    if name := text(document, "metadata", "name"):
        return name
    prefix = text(document, "metadata", "generateName")
    return f"{prefix[:_PREFIX]}{suffix}" if prefix else None
