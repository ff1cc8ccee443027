"""The small judgements the handlers share: has it succeeded, may it try again, how long to wait."""

from gangline.model import Backoff, Job, Policy, ReplicaId, ReplicaState, ReplicaStatus, Retry, Success
from gangline.model.jobs.spec import SERVICE_ROLES

_STEADY_SECONDS = 60.0
"""A replica that ran this long before it failed is not in a crash loop: its back-off begins anew."""


def has_succeeded(job: Job) -> bool:
    """Whether the replicas that count have all exited with 0."""
    if job.spec.success is Success.LEAD:
        lead = job.replica(ReplicaId(job.spec.lead_role, 0))
        return lead is not None and lead.state is ReplicaState.SUCCEEDED
    decisive = [status for status in job.replicas if status.id.role not in SERVICE_ROLES] or list(job.replicas)
    return all(status.state is ReplicaState.SUCCEEDED for status in decisive)


def may_retry(retry: Retry, exit_code: int) -> bool:
    """Whether this exit code deserves another try."""
    return retry is not Retry.SIGNALS or exit_code > 127


def may_shrink(job: Job, lost: ReplicaId) -> bool:
    """Whether the gang can live on without this replica."""
    role = job.spec.role(lost.role)
    left = [status.id.index for status in job.replicas if status.id.role == lost.role and status.id != lost]
    others_left = len(job.replicas) > 1
    is_lead = lost == ReplicaId(job.spec.lead_role, 0)
    return role.elastic and role.has_enough(left) and others_left and not is_lead


def backoff_seconds(policy: Policy, tries: int) -> float:
    """How long to wait before the gang's next try: longer each time, up to the limit."""
    return Backoff(policy.backoff_seconds, policy.backoff_limit_seconds, policy.backoff_factor).pause(tries)


def too_late(job: Job, at: float) -> bool:
    """Whether the next attempt would begin after the time in which a failure is retried."""
    limit = job.spec.policy.retry_for_seconds
    return limit is not None and job.started_at is not None and at > job.started_at + limit


def quick_restarts(status: ReplicaStatus) -> int:
    """How often in a row a replica that has failed was started again and failed soon."""
    ran = (status.finished_at or 0.0) - (status.started_at or 0.0)
    return 0 if ran >= _STEADY_SECONDS else status.restarts


def replica_backoff_seconds(policy: Policy, status: ReplicaStatus) -> float:
    """How long to wait before a replica's next start in place."""
    return backoff_seconds(policy, quick_restarts(status) + 1)
