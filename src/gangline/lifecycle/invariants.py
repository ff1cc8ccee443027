"""What must hold of every job at every moment, whatever happened. Tests check it after every event."""

from collections import Counter

from gangline.errors import GanglineError
from gangline.model import ACTIVE_PHASES, FINAL_PHASES, Job, Phase, ReplicaState

_RESTING = frozenset({Phase.QUEUED, Phase.HALTED, Phase.RESUMED})


class InvariantError(GanglineError):
    """A job is in a state that must not exist: a defect in the lifecycle."""

    def __init__(self, job: Job, broken: list[str]) -> None:
        self.job = job
        self.broken = broken
        super().__init__(f"job '{job.name}' in {job.phase}: {'; '.join(broken)}")


def check_invariants(job: Job) -> None:
    """Raise InvariantError if the job is in a state that must not exist."""
    broken = [rule for rule, holds in _rules(job).items() if not holds]
    if broken:
        raise InvariantError(job, broken)


def check_step(before: Job, after: Job) -> None:
    """Raise InvariantError if a job may not have become the other in one step."""
    rules = {
        "history is only ever extended": after.history[: len(before.history)] == before.history,
        "attempts are never taken back": after.attempt >= before.attempt,
        "failures are never taken back": after.failures >= before.failures,
        "a final phase is final": not before.finished or after.phase is before.phase,
        "machines are taken only by a new attempt": before.holding
        or not after.holding
        or after.attempt > before.attempt,
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise InvariantError(after, broken)


def _rules(job: Job) -> dict[str, bool]:
    times = [entry.at for entry in job.history]
    per_role = Counter(status.id.role for status in job.replicas)
    limits = {role.name: role.most for role in job.spec.roles}
    return {
        "history is in order": times == sorted(times),
        "a finished job has a finish time, and no other has": job.finished == (job.finished_at is not None),
        "an active job holds its machines": job.phase not in ACTIVE_PHASES or (job.holding and job.attempt > 0),
        "a job at rest holds nothing": job.phase not in _RESTING or not job.holding,
        "a job that holds machines has replicas": not job.holding or bool(job.replicas),
        "no more failures than attempts": job.failures <= job.attempt,
        "no more failures than the budget": job.failures <= job.spec.policy.max_attempts,
        "replicas are unique": len({status.id for status in job.replicas}) == len(job.replicas),
        "no role exceeds its most": all(count <= limits.get(role, 0) for role, count in per_role.items()),
        "completed means exit code 0": job.phase is not Phase.COMPLETED or job.exit_code == 0,
        "only a halting job is to be queued again": not job.requeue or job.phase is Phase.HALTING,
        "a job being deleted has ended": not job.deleting or job.phase in FINAL_PHASES,
        "a replica that backs off knows until when": all(
            status.retry_at is not None for status in job.replicas if status.state is ReplicaState.BACKING_OFF
        ),
    }
