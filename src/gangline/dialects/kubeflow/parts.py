"""A Kubeflow job taken apart, and what there is to remark on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangline.dialects.kubeflow import old_tfjob
from gangline.dialects.kubeflow.elastic import Elastic
from gangline.dialects.kubeflow.kinds import OLD_TF_VERSIONS, V1, Kind, RestartPolicy
from gangline.dialects.kubeflow.pod_template import GANG_SCHEDULERS
from gangline.dialects.kubeflow.replicas import Replica
from gangline.dialects.kubeflow.run_policy import RunPolicy
from gangline.dialects.value import Value
from gangline.model.jobs.spec import SERVICE_ROLES

_LEADS = ("Chief", "Master", "Launcher")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A job taken apart: everything the translation is made from."""

    kind: Kind
    version: str
    metadata: Mapping[str, Value]
    given: Mapping[str, Value]
    run: RunPolicy
    replicas: Sequence[Replica]
    elastic: Elastic
    strict: bool

    @property
    def present(self) -> list[Replica]:
        """The replica types with at least one replica."""
        return [replica for replica in self.replicas if replica.count]

    @property
    def has_lead(self) -> bool:
        """Whether a chief, master or launcher speaks for the job."""
        return any(replica.type in _LEADS for replica in self.present)

    def decides(self, replica: Replica) -> bool:
        """Whether the job's success depends on this replica type."""
        if self.has_lead:
            return replica.type in _LEADS
        return replica.role not in SERVICE_ROLES

    @property
    def dynamic_workers(self) -> bool:
        """Whether workers of a TFJob may come and go without the others being told."""
        return "enableDynamicWorker" in self.given and self.given["enableDynamicWorker"].boolean()


def notes_on(parts: Parts) -> tuple[str, ...]:
    """Remarks that hold wherever the job runs."""
    return (
        *_version_notes(parts),
        *parts.run.notes,
        *parts.elastic.notes,
        *_restart_notes(parts),
        *(note for replica in parts.present for note in replica.template.notes),
    )


def local_notes_on(parts: Parts) -> tuple[str, ...]:
    """Remarks for an engine without containers."""
    return (*_image_notes(parts), *(note for replica in parts.present for note in replica.template.local_notes))


def _version_notes(parts: Parts) -> list[str]:
    notes = []
    if parts.version == OLD_TF_VERSIONS[0]:
        notes.append(old_tfjob.TODAY)
    elif parts.version in OLD_TF_VERSIONS:
        notes.append(f"{parts.version}: write today apiVersion {V1}; the replica specs stay as they are")
    for scheduler in dict.fromkeys(_schedulers(parts)):
        if GANG_SCHEDULERS.fullmatch(scheduler):
            notes.append(f"schedulerName {scheduler} asks for a gang; every job is one here")
    return notes


def _schedulers(parts: Parts) -> list[str]:
    named = [replica.template.scheduler for replica in parts.present]
    if "schedulerName" in parts.given:
        named.append(parts.given["schedulerName"].text())
    return [name for name in named if name]


def _restart_notes(parts: Parts) -> list[str]:
    """Whoever decides on success and is always started again never succeeds, here as upstream."""
    deciding = [replica for replica in parts.present if parts.decides(replica)]
    return [
        f"{replica.type}: with restartPolicy Always it is started again when it ends with 0, and the job never succeeds"
        for replica in deciding
        if replica.restart is RestartPolicy.ALWAYS
    ]


def _image_notes(parts: Parts) -> list[str]:
    images = dict.fromkeys(replica.template.image for replica in parts.present if replica.template.image)
    return [f"the image {', '.join(images)} is ignored: commands run on this machine itself"] if images else []
