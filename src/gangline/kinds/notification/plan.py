"""Decides which changes of jobs are to be told, and what follows from an attempt to tell them.

Nothing is told twice unless a service dies between telling and noting it: each job's history is counted. Every change
has an id that follows from it, by which a receiver recognizes one that it has seen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gangline.kinds.kind import Owned, Plan
from gangline.lifecycle import NOTHING_TO_DO
from gangline.model import Job, JobId, Timestamp
from gangline.model.backoff import Backoff
from gangline.model.kinds.notification import Delivery, FollowedJob, Notification, NotificationSpec, NotificationStatus

MOST_FAILURES = 12
"""After this many failed attempts in a row it is disabled: with these pauses, after half a day."""
BACKOFF = Backoff(first_seconds=5.0, longest_seconds=3 * 3600.0, factor=3.0)
MOST_PENDING = 1000
OVERLAP_SECONDS = 10.0
"""How long after the time that it bears a new job may come to be known."""
_MOST_MESSAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What became of an attempt to tell: which were accepted, and why the one after them was not."""

    at: Timestamp
    sent: tuple[str, ...] = ()
    problem: str = ""
    gone: bool = False
    """Whether the receiver says that it wants no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSight:
    """What was seen since: jobs that may have changed, those that exist no more, and the last attempt to tell."""

    at: Timestamp
    jobs: tuple[Job, ...] = ()
    gone: tuple[JobId, ...] = ()
    attempt: Attempt | None = None


def plan_notification(notification: Notification, owned: Owned, now: Timestamp) -> Plan[NotificationStatus]:
    """Note what was told, and queue what is to be told next."""
    status, sight = notification.status, owned.sight
    if not isinstance(sight, NotificationSight):
        return Plan(status=status)
    if sight.attempt is not None:
        status = after_attempt(status, sight.attempt, now)
    if sight.jobs or sight.gone or status.seen_at is None:
        status = _after_changes(notification, status, sight)
    waiting = status.pending and status.retry_at is not None and status.retry_at > now
    return Plan(status=status, again_at=status.retry_at if waiting else None)


def after_attempt(status: NotificationStatus, attempt: Attempt, now: Timestamp) -> NotificationStatus:
    """Return the status once an attempt is counted; one that was counted before changes nothing."""
    if status.tried_at is not None and attempt.at <= status.tried_at:
        return status
    told = set(attempt.sent)
    pending = tuple(each for each in status.pending if each.id not in told)
    status = replace(
        status, tried_at=attempt.at, pending=pending, sent=status.sent + len(status.pending) - len(pending)
    )
    if not attempt.problem:
        return replace(status, failures=0, problem="", retry_at=None)
    failures = 1 if told else status.failures + 1
    status = replace(status, failures=failures, problem=attempt.problem)
    if attempt.gone or failures >= MOST_FAILURES:
        return replace(status, disabled_at=now, retry_at=None, pending=(), dropped=status.dropped + len(status.pending))
    return replace(status, retry_at=Timestamp(attempt.at + BACKOFF.pause(failures)))


def _after_changes(
    notification: Notification, status: NotificationStatus, sight: NotificationSight
) -> NotificationStatus:
    following = {job_id: each for job_id, each in status.following.items() if job_id not in sight.gone}
    found: list[Delivery] = []
    for job in sight.jobs:
        if follows(notification.spec, job) and not _told_to_its_end(status, job):
            known = following.get(job.id)
            found += deliveries(notification, job, 0 if known is None else known.entries)
            until = Timestamp(job.created_at + OVERLAP_SECONDS) if job.finished else None
            following[job.id] = FollowedJob(entries=len(job.history), until=until)
    waiting = (*status.pending, *found)
    lost = max(len(waiting) - MOST_PENDING, 0) if status.disabled_at is None else len(waiting)
    return replace(
        status,
        seen_at=sight.at,
        following=_still_followed(following, sight.at),
        pending=waiting[lost:],
        dropped=status.dropped + lost,
    )


def _still_followed(following: Mapping[JobId, FollowedJob], now: Timestamp) -> dict[JobId, FollowedJob]:
    return {job_id: each for job_id, each in following.items() if each.until is None or each.until >= now}


def _told_to_its_end(status: NotificationStatus, job: Job) -> bool:
    """Whether a job that is not followed was: all that have not ended are."""
    old = status.seen_at is not None and job.created_at + OVERLAP_SECONDS < status.seen_at
    return old and job.id not in status.following


def follows(spec: NotificationSpec, job: Job) -> bool:
    """Whether somebody may want to be told of a job, now or once it has other labels."""
    return job.spec.tenant == spec.tenant and (not spec.jobs or job.spec.name in spec.jobs)


def _selects(spec: NotificationSpec, job: Job) -> bool:
    return all(job.spec.labels.get(name) == value for name, value in spec.selector.items())


def deliveries(notification: Notification, job: Job, known: int) -> Iterator[Delivery]:
    """Return the changes behind the first ``known`` that are to be told, oldest first."""
    if not _selects(notification.spec, job):
        return
    for number, entry in enumerate(job.history[known:], known):
        passed = entry.reason == NOTHING_TO_DO or entry.at < notification.created_at
        if entry.phase in notification.spec.told_phases and not passed:
            yield Delivery(
                id=f"{notification.id}-{job.id}-{number}",
                job=job.spec.name,
                job_id=job.id,
                phase=entry.phase,
                previous=job.history[number - 1].phase if number else None,
                reason=entry.reason,
                message=entry.message[:_MOST_MESSAGE],
                at=entry.at,
            )


def may_try(status: NotificationStatus, now: Timestamp) -> bool:
    """Whether something is to be told now."""
    return bool(status.pending) and status.disabled_at is None and (status.retry_at or now) <= now
