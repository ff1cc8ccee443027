"""What objects are called and how they are recognised again: every name is a function of the gang, none is drawn.

That is what makes a launch idempotent: a controller that died between two writes asks for the same names again, and
the API server refuses the second of two equal ones. Nothing parses a name; whoever must know what a pod is reads its
labels.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gangline.model import GangId, GangReplica, JobId, JobSpec, ReplicaId, RoleName

DOMAIN = "gangline.dev"
CONTROLLER = f"{DOMAIN}/controller"
"""Which installation an object belongs to; two may share a cluster without meeting."""
JOB = f"{DOMAIN}/job"
JOB_ID = f"{DOMAIN}/job-id"
ATTEMPT = f"{DOMAIN}/attempt"
ROLE = f"{DOMAIN}/role"
INDEX = f"{DOMAIN}/index"
INCARNATION = f"{DOMAIN}/incarnation"
PART = f"{DOMAIN}/part"
"""What an object is to its job: see ``Part``."""
SOLO = f"{DOMAIN}/solo"
"""On pods of jobs that never have a second replica: they share one network policy per namespace."""
SERVES = f"{DOMAIN}/serves"
"""On pods of services: routers may connect to them."""
SERVING_PORT = f"{DOMAIN}/serving-port"
"""On pods of services (an annotation): where they answer."""
ROUTER = {"app.kubernetes.io/name": "gangline", "app.kubernetes.io/component": "router"}
"""The labels of routers."""
CLEAN = f"{DOMAIN}/clean"
"""On pods that may be left when their job has ended (an annotation): see ``Clean``."""
VOLUME = f"{DOMAIN}/volume"
"""On a job: the PersistentVolumeClaim its directories are kept on."""

_LABEL_LENGTH = 63
_DIGEST_LENGTH = 6
FOREIGN = f"{DOMAIN}/foreign"
"""On a job: it stands for pods of others."""
POD_JOB_PREFIX = "pod:"
"""No label may hold a colon: nobody can give a job object the id of somebody's pod."""


class Part(StrEnum):
    """The values of the label ``gangline.dev/part``."""

    REPLICA = "replica"
    NETWORK = "network"
    CODE = "code"
    INPUTS = "inputs"
    MOVES = "moves"
    SHELL = "shell"
    SECRET = "secret"  # noqa: S105  # the name of a part
    HOSTS = "hosts"
    LOGS = "logs"


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """One start of one replica of one attempt: exactly one pod."""

    gang_id: GangId
    replica: ReplicaId
    incarnation: int


def job_name(name: str, job_id: JobId) -> str:
    """Name what belongs to a whole job: readable, at most 63 characters, and never that of a namesake."""
    digest = hashlib.sha256(job_id.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: _LABEL_LENGTH - _DIGEST_LENGTH - 1].rstrip('-')}-{digest}"


def pod_name(name: str, gang_id: GangId, replica: GangReplica) -> str:
    """Name a pod: job, attempt, replica and, past the first, incarnation."""
    again = f"-r{replica.incarnation}" if replica.incarnation else ""
    return f"{job_name(name, gang_id.job_id)}-{gang_id.attempt}-{replica.id}{again}"


def host_name(replica: ReplicaId) -> str:
    """Name a replica's host; a role's name may be as long as a host name, so the whole may need cutting."""
    plain = str(replica)
    if len(plain) <= _LABEL_LENGTH:
        return plain
    digest = hashlib.sha256(replica.role.encode()).hexdigest()[:_DIGEST_LENGTH]
    tail = f"-{digest}-{replica.index}"
    return plain[: _LABEL_LENGTH - len(tail)].rstrip("-") + tail


def gang_labels(controller: str, gang_id: GangId) -> dict[str, str]:
    """Select every pod of one attempt."""
    return {CONTROLLER: controller, JOB_ID: gang_id.job_id, ATTEMPT: str(gang_id.attempt)}


def job_labels(controller: str, job_id: JobId) -> dict[str, str]:
    """Select everything of one job."""
    return {CONTROLLER: controller, JOB_ID: job_id}


def replica_labels(gang_id: GangId, replica: GangReplica) -> dict[str, str]:
    """What ``replica_of`` reads back."""
    return {
        PART: Part.REPLICA,
        JOB_ID: gang_id.job_id,
        ATTEMPT: str(gang_id.attempt),
        ROLE: replica.id.role,
        INDEX: str(replica.id.index),
        INCARNATION: str(replica.incarnation),
    }


def replica_of(labels: Mapping[str, str], controller: str) -> ReplicaKey | None:
    """Say which replica a pod is; None for a pod that is none of ours."""
    if labels.get(CONTROLLER) != controller or labels.get(PART) != Part.REPLICA:
        return None
    try:
        return ReplicaKey(
            GangId(JobId(labels[JOB_ID]), int(labels[ATTEMPT])),
            ReplicaId(RoleName(labels[ROLE]), int(labels[INDEX])),
            int(labels[INCARNATION]),
        )
    except (KeyError, ValueError):
        return None  # somebody wrote labels like ours on a pod of their own


def is_foreign(spec: JobSpec) -> bool:
    """Whether a job stands for pods of others."""
    return FOREIGN in spec.labels and spec.manifest_json is not None


def is_pod_job(job_id: JobId) -> bool:
    """Whether a job stands for one pod and is kept in memory alone."""
    return job_id.startswith(POD_JOB_PREFIX)
