"""What every store must answer alike: which jobs a query means, page cursors, and the hint for a name not found."""

import difflib
from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from gangline.errors import ConflictError, InvalidInputError, NotFoundError
from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Job, Timestamp
from gangline.model.record import Page, Record, Summary
from gangline.storage.interface import JobQuery, Store

Listed = TypeVar("Listed", bound=Record[Any, Any])

HINT_CANDIDATES = 1000
"""How many of a tenant's newest names are compared for a hint; comparing all of them could take seconds."""


class Position(NamedTuple):
    """A job's or record's place in the order of every list: creation time, then id."""

    created_at: Timestamp
    id: str


def position_of(item: Job | Record[Any, Any]) -> Position:
    """Return where the job or record stands in a list."""
    return Position(item.created_at, item.id)


def position_to_cursor(position: Position) -> str:
    """Write the cursor of the page that begins after this position."""
    return f"{float(position.created_at)!r}:{position.id}"


def cursor_to_position(cursor: str) -> Position:
    """Read a cursor back; raises InvalidInputError, for it may have passed through a user's hands."""
    created_at, _, item_id = cursor.partition(":")
    try:
        return Position(Timestamp(float(created_at)), item_id)
    except ValueError as error:
        raise InvalidInputError(
            f"'{cursor}' is not a page cursor", field="after", expected="what the page before returned"
        ) from error


def page_of_records(records: Iterable[Listed], limit: int | None, after: str | None) -> Page[Listed]:
    """Return one page of records that are all at hand."""
    before = cursor_to_position(after) if after is not None else None
    ordered = sorted(records, key=position_of, reverse=True)
    behind = [record for record in ordered if before is None or position_of(record) < before]
    items = tuple(behind[:limit])
    more = len(behind) > len(items)
    return Page(items=items, next=position_to_cursor(position_of(items[-1])) if more and items else None)


def summaries_of(kind: Kind[Spec, Status, View], records: Iterable[Record[Spec, Status]]) -> tuple[Summary, ...]:
    """Return the summaries of records that are all at hand."""
    return tuple(summary_of(kind, record) for record in records if not record.deleting)


def summary_of(kind: Kind[Spec, Status, View], record: Record[Spec, Status]) -> Summary:
    """Return the summary of one record."""
    return Summary(record.name, record.created_at, kind.summarize(record))


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


def id_taken(kind: str, record: Record[Any, Any]) -> ConflictError:
    """Make the error for an id that another record of the kind bears."""
    return ConflictError(f"there is a {kind} with the id '{record.id}' already")


def name_taken(kind: str, record: Record[Any, Any]) -> ConflictError:
    """Make the error for a name that is taken."""
    whose = f"tenant '{record.tenant}' has" if record.tenant is not None else "there is"
    return ConflictError(f"{whose} a {kind} named '{record.name}' already")


async def every(store: Store, query: JobQuery) -> AsyncGenerator[Job, None]:
    """Return all jobs that a query means, however many pages that takes."""
    while True:
        page = await store.list(query)
        for job in page.jobs:
            yield job
        if page.next is None:
            return
        query = replace(query, after=page.next)
