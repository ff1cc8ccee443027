"""A record of a job's journal as a Kubernetes event. Pure."""

from dataclasses import dataclass

from gangline.kube import GenericObject, Resource
from gangline.model import JournalRecord, Phase
from gangline.storage.kubernetes.records.custom_resources import moment
from gangline.storage.kubernetes.records.record_kind import Plain, StoredJob

_WARNINGS = frozenset({Phase.FAILED, Phase.RESTARTING})
_LONGEST_MESSAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The object an event is about."""

    resource: Resource[GenericObject]
    namespace: str
    name: str
    uid: str


def subject_of(stored: StoredJob) -> Subject:
    """The object that is a job's record."""
    return Subject(resource=stored.kind.resource, namespace=stored.namespace, name=stored.name, uid=stored.uid)


def record_to_event(
    subject: Subject, record: JournalRecord, reason: str, message: str, *, component: str = "gangline", about: str = ""
) -> Plain:
    """Write an event about a job object; the name is the record's, so that repeating it changes nothing.

    ``about`` tells apart several events of one record, such as one per pod.
    """
    at = moment(record.at)
    digest = f"{round(record.at * 1000):x}" + (f".{about}" if about else "")
    return {
        "metadata": {"name": f"{subject.name[:120]}.{reason.lower()}.{digest}", "namespace": subject.namespace},
        "type": "Warning" if record.phase in _WARNINGS else "Normal",
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "involvedObject": {
            "apiVersion": subject.resource.api_version,
            "kind": subject.resource.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
