"""A query for jobs as one SQL statement, the same for every dialect."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gangline.model import Phase
from gangline.storage.interface import JobQuery
from gangline.storage.listing import cursor_to_position
from gangline.storage.sql.database import Parameter

Statement = tuple[str, tuple[Parameter, ...]]
"""SQL and its parameters."""


class _Lead(NamedTuple):
    """The table whose order in time the search follows, and its column with the job's id."""

    source: str
    id: str


_BY_JOB = _Lead("jobs AS lead", "lead.id")
# CROSS JOIN is the word with which SQLite keeps the order of the tables as written.
_BY_LABEL = _Lead("labels AS lead CROSS JOIN jobs", "lead.job_id")


def page_statement(query: JobQuery, *, label_leads: bool) -> Statement:
    """Return the statement for one page and one job more, newest first.

    ``label_leads`` begins with the jobs that bear the query's first label, which pays if they are few; without it
    the jobs' own indexes lead and labels are looked up last.

    The inner statements read narrow rows only; documents are read for the jobs of the page alone.
    """
    lead = _BY_LABEL if label_leads else _BY_JOB
    parts = [_newest(query, phase, lead) for phase in _phases(query)]
    sources = " UNION ALL ".join(f"SELECT * FROM ({sql}) AS part_{number}" for number, (sql, _) in enumerate(parts))
    parameters = tuple(parameter for _, values in parts for parameter in values)
    statement = (
        "SELECT document, page.created_at, page.id "
        f"FROM (SELECT * FROM ({sources}) AS found ORDER BY created_at DESC, id DESC LIMIT ?) AS page "
        "JOIN jobs ON jobs.id = page.id ORDER BY page.created_at DESC, page.id DESC"
    )
    return statement, (*parameters, query.limit + 1)


def _phases(query: JobQuery) -> Sequence[Phase | None]:
    """Return the phases to look for one by one, for an index is in the order of time only within one phase."""
    return (None,) if query.phases is None else sorted(query.phases)


def _newest(query: JobQuery, phase: Phase | None, lead: _Lead) -> Statement:
    """Return the statement for the newest jobs in one phase, or in any."""
    conditions = list(_conditions(query, phase, lead))
    where = " AND ".join(sql for sql, _ in conditions) or "1 = 1"
    parameters = tuple(parameter for _, values in conditions for parameter in values)
    statement = (
        f"SELECT lead.created_at, {lead.id} AS id FROM {lead.source} WHERE {where} "
        f"ORDER BY lead.created_at DESC, {lead.id} DESC LIMIT ?"
    )
    return statement, (*parameters, query.limit + 1)


def _conditions(query: JobQuery, phase: Phase | None, lead: _Lead) -> Iterator[Statement]:
    labels = query.labels
    if lead is _BY_LABEL:
        yield "lead.key = ? AND lead.value = ? AND jobs.id = lead.job_id", labels[0]
        labels = labels[1:]
    if query.after is not None:
        yield f"(lead.created_at, {lead.id}) < (?, ?)", tuple(cursor_to_position(query.after))
    if query.created_since is not None:
        yield "lead.created_at >= ?", (query.created_since,)
    if phase is not None:
        yield "phase = ?", (phase.value,)
    if query.tenant is not None:
        yield "tenant = ?", (query.tenant,)
    if query.queue is not None:
        yield "queue = ?", (query.queue,)
    if query.finished_before is not None:
        yield "finished_at < ?", (query.finished_before,)
    if query.text is not None:
        yield "name LIKE ? ESCAPE '!'", (f"%{_escaped(query.text.lower())}%",)
    for label in labels:
        # Not EXISTS, which PostgreSQL turns into a join that reads every job with the label before the first answer.
        same_job = f"label.created_at = lead.created_at AND label.job_id = {lead.id}"
        yield f"(SELECT 1 FROM labels AS label WHERE key = ? AND value = ? AND {same_job}) IS NOT NULL", label


def _escaped(text: str) -> str:
    """Take their special meaning from the characters that LIKE knows."""
    return "".join(f"!{letter}" if letter in "!%_" else letter for letter in text)
