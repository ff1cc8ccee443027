"""What every store must answer alike: which jobs a query means, page cursors, and the hint for a name not found."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from gangline.errors import InvalidInputError, NotFoundError
from gangline.model import Job, JobId, Timestamp
from gangline.storage.interface import JobQuery

HINT_CANDIDATES = 1000
"""How many of a tenant's newest names are compared for a hint; comparing all of them could take seconds."""


class Position(NamedTuple):
    """A job's place in the order of every list: creation time, then id."""

    created_at: Timestamp
    id: JobId


def position_of(job: Job) -> Position:
    """Return where the job stands in a list."""
    return Position(job.created_at, job.id)


def position_to_cursor(position: Position) -> str:
    """Write the cursor of the page that begins after this position."""
    return f"{float(position.created_at)!r}:{position.id}"


def cursor_to_position(cursor: str) -> Position:
    """Read a cursor back; raises InvalidInputError, for it may have passed through a user's hands."""
    created_at, _, job_id = cursor.partition(":")
    try:
        return Position(Timestamp(float(created_at)), JobId(job_id))
    except ValueError as error:
        raise InvalidInputError(
            f"'{cursor}' is not a page cursor", field="after", expected="what the page before returned"
        ) from error


def matches(job: Job, query: JobQuery) -> bool:
    """Whether the job meets every condition of the query, its cursor and limit aside."""
    spec = job.spec
    return (
        (query.tenant is None or spec.tenant == query.tenant)
        and (query.queue is None or spec.queue == query.queue)
        and (query.phases is None or job.phase in query.phases)
        and all(spec.labels.get(key) == value for key, value in query.labels)
        and (query.text is None or query.text.lower() in job.name)
        and (query.created_since is None or job.created_at >= query.created_since)
        and (query.finished_before is None or (job.finished_at is not None and job.finished_at < query.finished_before))
    )


def is_unfinished(job: Job) -> bool:
    """Whether a controller still has something to do for the job."""
    return not job.finished or job.holding or job.deleting or job.spec.policy.ttl_seconds is not None


def unknown_name(name: str, known: Iterable[str]) -> NotFoundError:
    """Make the error for a job name that is not there, with the nearest known name as a hint."""
    nearest = difflib.get_close_matches(name, known, n=1)
    return NotFoundError("job", name, hint=f"did you mean '{nearest[0]}'?" if nearest else None)
