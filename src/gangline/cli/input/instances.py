"""Replicas as users name them: ``worker-1``, or Arena's way, ``JOB-worker-1``."""

from gangline.errors import InvalidInputError
from gangline.model import Job, ReplicaId


def replica_named(job: Job, text: str, option: str = "--instance") -> ReplicaId:
    """Return the replica that is meant, whether it runs or not."""
    names = {str(replica): replica for replica in _replicas(job)}
    # A launcher has no number in the names of its pods.
    names |= {str(replica.role): replica for replica in names.values() if len(_of_role(names, replica)) == 1}
    word = text.removeprefix(f"{job.name}-")
    if word not in names:
        raise InvalidInputError(
            f"job '{job.name}' has no replica '{text}'", field=option, expected=f"one of {', '.join(sorted(names))}"
        )
    return names[word]


def _replicas(job: Job) -> list[ReplicaId]:
    present = [status.id for status in job.replicas]
    return present or [ReplicaId(role.name, index) for role in job.spec.roles for index in range(role.replicas)]


def _of_role(names: dict[str, ReplicaId], replica: ReplicaId) -> list[ReplicaId]:
    return [other for other in names.values() if other.role == replica.role]
