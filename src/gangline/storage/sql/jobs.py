"""Jobs and their journal as rows. Every function runs in a thread that owns the session; writes, in a transaction."""

from collections.abc import Sequence
from dataclasses import replace

from gangline.errors import ConflictError, NotFoundError, StaleVersionError
from gangline.model import Job, JobId, JobPage, JournalRecord, Tenant, Timestamp
from gangline.model.team.accounting import Use, submitter
from gangline.storage.codec import JOBS, RECORDS, Codec
from gangline.storage.interface import JobQuery
from gangline.storage.listing import HINT_CANDIDATES, Position, is_unfinished, position_to_cursor, unknown_name
from gangline.storage.sql.database import Parameter, Session
from gangline.storage.sql.page import page_statement

_COLUMNS = "id, version, tenant, name, queue, phase, created_at, finished_at, unfinished, deleting, document"
_USE = Codec(Use)
_FEW = 2000
"""A label that fewer jobs bear is where the search for a page begins."""


def create(session: Session, job: Job, records: Sequence[JournalRecord]) -> Job:
    """Insert a job, unless its id or its name is taken."""
    job = replace(job, version=1)
    added = session.change(
        f"INSERT INTO jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        _values(job),
    )
    if not added:
        if session.query("SELECT 1 FROM jobs WHERE id = ?", (job.id,)):
            raise ConflictError(f"there is a job with the id '{job.id}' already")
        raise ConflictError(f"tenant '{job.spec.tenant}' has a job named '{job.name}' already")
    _add_labels(session, job)
    _add_records(session, job.id, records)
    return job


def save(session: Session, job: Job, records: Sequence[JournalRecord]) -> Job:
    """Replace a job if nobody else has since it was read."""
    saved = replace(job, version=job.version + 1)
    changed = session.change(
        f"UPDATE jobs SET ({_COLUMNS}) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ? AND version = ?",
        (*_values(saved), job.id, job.version),
    )
    if not changed:
        kept = session.query("SELECT version FROM jobs WHERE id = ?", (job.id,))
        if not kept:
            raise NotFoundError("job", job.id)
        raise StaleVersionError("job", job.id, expected=job.version, found=kept[0][0])
    kept_labels = session.query("SELECT key, value FROM labels WHERE job_id = ?", (job.id,))
    if dict(kept_labels) != job.spec.labels:
        session.change("DELETE FROM labels WHERE job_id = ?", (job.id,))
        _add_labels(session, saved)
    _add_records(session, job.id, records)
    return saved


def get(session: Session, job_id: JobId) -> Job:
    """Read one job."""
    rows = session.query("SELECT document FROM jobs WHERE id = ?", (job_id,))
    if not rows:
        raise NotFoundError("job", job_id)
    return JOBS.decode(rows[0][0])


def find(session: Session, tenant: Tenant, name: str) -> Job:
    """Read the job that has the name, else the newest one that bore it and is being deleted."""
    for deleting in (0, 1):
        rows = session.query(
            f"SELECT document FROM jobs WHERE tenant = ? AND name = ? AND deleting = {deleting:d} "
            "ORDER BY created_at DESC, id DESC LIMIT 1",
            (tenant, name),
        )
        if rows:
            return JOBS.decode(rows[0][0])
    newest = "SELECT name FROM jobs WHERE tenant = ? ORDER BY created_at DESC, id DESC LIMIT ?"
    raise unknown_name(name, (row[0] for row in session.query(newest, (tenant, HINT_CANDIDATES))))


def page(session: Session, query: JobQuery) -> JobPage:
    """Read one page; the statement asks for one job more, to know whether there is another page."""
    if query.phases is not None and not query.phases:
        return JobPage(jobs=(), next=None)
    counts = {label: _count_label(session, label) for label in query.labels}
    rarest_first = tuple(sorted(query.labels, key=counts.__getitem__))
    label_leads = bool(counts) and min(counts.values()) < _FEW
    rows = session.query(*page_statement(replace(query, labels=rarest_first), label_leads=label_leads))
    shown = rows[: query.limit]
    jobs = tuple(JOBS.readable((job_id, document) for document, _, job_id in shown))
    return JobPage(jobs=jobs, next=position_to_cursor(Position(*shown[-1][1:])) if len(rows) > len(shown) else None)


def _count_label(session: Session, label: tuple[str, str]) -> int:
    """Count the jobs with a label, but no further than needed to know whether they are few."""
    counted = "SELECT COUNT(*) FROM (SELECT 1 FROM labels WHERE key = ? AND value = ? LIMIT ?) AS found"
    count: int = session.query(counted, (*label, _FEW))[0][0]
    return count


def unfinished_after(session: Session, job_id: JobId | None, limit: int) -> tuple[tuple[Job, ...], JobId | None]:
    """Read the unfinished jobs that follow an id, in the order of ids, and the id to go on from; None at the end."""
    rows = session.query(
        "SELECT id, document FROM jobs WHERE unfinished = 1 AND id > ? ORDER BY id LIMIT ?", (job_id or "", limit)
    )
    return tuple(JOBS.readable(rows)), JobId(rows[-1][0]) if rows else None


def remove(session: Session, job_id: JobId) -> None:
    """Delete a job; its labels, journal and metrics go with it. What it has used is kept."""
    for job in JOBS.readable(session.query("SELECT id, document FROM jobs WHERE id = ?", (job_id,))):
        by = submitter(journal(session, job_id, 0, 1, newest=False))
        if (use := Use.of(job, by).ended(job.history[-1].at)) is not None:
            values = (use.tenant, use.finished_at, _USE.encode(use))
            session.change("INSERT INTO past_use (tenant, finished_at, document) VALUES (?, ?, ?)", values)
    session.change("DELETE FROM jobs WHERE id = ?", (job_id,))


def past_use(session: Session, tenant: Tenant | None, since: Timestamp) -> tuple[Use, ...]:
    """Read what deleted jobs had used that ended after a moment."""
    condition, values = ("", ()) if tenant is None else (" AND tenant = ?", (tenant,))
    rows = session.query(f"SELECT number, document FROM past_use WHERE finished_at > ?{condition}", (since, *values))
    return tuple(_USE.readable(rows))


def journal(session: Session, job_id: JobId, after: int, limit: int, *, newest: bool) -> tuple[JournalRecord, ...]:
    """Read a part of a job's journal."""
    order = "DESC" if newest else "ASC"
    rows = session.query(
        f"SELECT number, document FROM journal WHERE job_id = ? AND number > ? ORDER BY number {order} LIMIT ?",
        (job_id, after, limit),
    )
    return tuple(sorted((replace(RECORDS.decode(text), number=number) for number, text in rows), key=_number))


def _number(record: JournalRecord) -> int:
    return record.number


def _values(job: Job) -> tuple[Parameter, ...]:
    spec = job.spec
    return (
        job.id,
        job.version,
        spec.tenant,
        spec.name,
        spec.queue,
        job.phase.value,
        job.created_at,
        job.finished_at,
        int(is_unfinished(job)),
        int(job.deleting),
        JOBS.encode(job),
    )


def _add_labels(session: Session, job: Job) -> None:
    rows = [(key, value, job.created_at, job.id) for key, value in job.spec.labels.items()]
    if rows:
        session.change_many("INSERT INTO labels (key, value, created_at, job_id) VALUES (?, ?, ?, ?)", rows)


def _add_records(session: Session, job_id: JobId, records: Sequence[JournalRecord]) -> None:
    if records:
        rows = [(job_id, RECORDS.encode(record)) for record in records]
        session.change_many("INSERT INTO journal (job_id, document) VALUES (?, ?)", rows)
