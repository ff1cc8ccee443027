"""When running gangs are expected to end: declared run times, and a guess where none was declared."""

from gangline.model import Job, Timestamp
from gangline.scheduling.gangs.holdings import Held, Waiting

SHORTEST_GUESS_SECONDS = 60.0


def expected_end(gang: Held, now: Timestamp) -> Timestamp:
    """When the gang gives its machines back.

    What has run for a while is expected to run for as long again: the only guess that needs no knowledge of the
    work. It also serves for gangs that have outlived what they declared.
    """
    if gang.releasing:
        return now
    launched = gang.launched_at
    declared = gang.job.spec.policy.expected_seconds
    if declared is not None and launched + declared > now:
        end = launched + declared
    else:
        end = now + max(now - launched, SHORTEST_GUESS_SECONDS)
    return Timestamp(end if gang.job.deadline_at is None else max(min(end, gang.job.deadline_at), now))


def ends_by(gang: Waiting, now: Timestamp, limit: Timestamp) -> bool:
    """Whether a gang that starts now has promised to be gone by then: declared run time, or its deadline."""
    return gang.promise is not None and now + gang.promise <= limit


def waiting_since(job: Job) -> Timestamp:
    """When the job joined the line it is in now."""
    return job.history[-1].at
