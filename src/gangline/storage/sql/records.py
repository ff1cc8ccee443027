"""Records of every kind as rows. Every function runs in a thread that owns the session; writes, in a transaction."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic

import msgspec

from gangline.errors import NotFoundError, StaleVersionError
from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Tenant, Timestamp
from gangline.model.record import Page, Record, Summary
from gangline.storage.codec import codec_of
from gangline.storage.listing import (
    Position,
    cursor_to_position,
    id_taken,
    name_taken,
    position_to_cursor,
    summaries_of,
)
from gangline.storage.sql.database import Session
from gangline.storage.sql.threads import SessionThreads

_COLUMNS = "kind, id, version, tenant, name, created_at, settled, summary, document"
_INSERT = f"INSERT INTO records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_NEWEST_FIRST = "ORDER BY created_at DESC, id DESC"
_SUMMARIES = msgspec.json.Decoder(list[dict[str, str | float | None]])
_GONE = "-"
"""The summary of what is being deleted."""


class SqlRecords(Generic[Spec, Status]):
    """Keeps the records of one kind in the one table that they all share."""

    def __init__(self, threads: SessionThreads, kind: Kind[Spec, Status, View]) -> None:
        self._threads = threads
        self._kind = kind.name
        self._whole_kind: Kind[Spec, Status, Any] = kind
        self._codec = codec_of(kind)
        self._read_before: dict[tuple[str, Timestamp, str], Summary] = {}
        """The summaries of the last list by the rows that they were: of thousands hardly any has changed since."""

    async def create(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Keep a new record; see Records."""
        return await self._threads.write(self._create, record)

    async def save(self, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Replace a record; see Records."""
        return await self._threads.retry(self._save, record)

    async def find(self, tenant: Tenant | None, name: str) -> Record[Spec, Status] | None:
        """Return a record by its name; see Records."""
        return await self._threads.read(self._find, tenant, name)

    async def find_all(self, tenant: Tenant | None, names: Sequence[str]) -> Sequence[Record[Spec, Status]]:
        """Return several records; see Records."""
        return await self._threads.read(self._find_all, tenant, names)

    async def list(
        self, tenant: Tenant | None = None, *, limit: int | None = None, after: str | None = None
    ) -> Page[Record[Spec, Status]]:
        """Return one page; see Records."""
        return await self._threads.read(self._page, tenant, limit, after)

    async def unsettled(self) -> Sequence[Record[Spec, Status]]:
        """Return what something may be done for; see Records."""
        return await self._threads.read(self._unsettled)

    async def summaries(self, tenant: Tenant) -> Sequence[Summary]:
        """Return all summaries; see Records."""
        return await self._threads.read(self._summaries, tenant)

    async def remove(self, record: Record[Spec, Status]) -> None:
        """Remove a record; see Records."""
        await self._threads.retry(self._remove, record)

    def _create(self, session: Session, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Insert a record; the table itself refuses a second one of the same id or name."""
        created = replace(record, version=1)
        place = (self._kind, record.id, 1, record.tenant or "", record.name, record.created_at, *self._beside(record))
        if not session.change(f"{_INSERT} ON CONFLICT DO NOTHING", (*place, self._codec.encode(created))):
            taken = session.query("SELECT 1 FROM records WHERE kind = ? AND id = ?", (self._kind, record.id))
            raise id_taken(self._kind, record) if taken else name_taken(self._kind, record)
        return created

    def _save(self, session: Session, record: Record[Spec, Status]) -> Record[Spec, Status]:
        """Replace a record, unless somebody else did so since it was read."""
        saved = replace(record, version=record.version + 1)
        changed = session.change(
            "UPDATE records SET version = ?, settled = ?, summary = ?, document = ?"
            " WHERE kind = ? AND id = ? AND version = ?",
            (saved.version, *self._beside(saved), self._codec.encode(saved), self._kind, record.id, record.version),
        )
        if not changed:
            rows = session.query("SELECT version FROM records WHERE kind = ? AND id = ?", (self._kind, record.id))
            if not rows:
                raise NotFoundError(self._kind, record.name)
            raise StaleVersionError(self._kind, record.name, expected=record.version, found=rows[0][0])
        return saved

    def _find(self, session: Session, tenant: Tenant | None, name: str) -> Record[Spec, Status] | None:
        rows = session.query(
            "SELECT document FROM records WHERE kind = ? AND tenant = ? AND name = ?", (self._kind, tenant or "", name)
        )
        return self._codec.decode(rows[0][0]) if rows else None

    def _find_all(
        self, session: Session, tenant: Tenant | None, names: Sequence[str]
    ) -> Sequence[Record[Spec, Status]]:
        marks = ", ".join("?" for _ in names)
        rows = session.query(
            f"SELECT id, document FROM records WHERE kind = ? AND tenant = ? AND name IN ({marks})",
            (self._kind, tenant or "", *names),
        )
        by_name = {record.name: record for record in self._codec.readable(rows)}
        return tuple(by_name[name] for name in names if name in by_name)

    def _page(
        self, session: Session, tenant: Tenant | None, limit: int | None, after: str | None
    ) -> Page[Record[Spec, Status]]:
        conditions: list[str] = ["kind = ?"]
        values: list[str | float] = [self._kind]
        if tenant is not None:
            conditions, values = [*conditions, "tenant = ?"], [*values, tenant]
        if after is not None:
            conditions, values = [*conditions, "(created_at, id) < (?, ?)"], [*values, *cursor_to_position(after)]
        most = "" if limit is None else f" LIMIT {limit + 1}"
        where = " AND ".join(conditions)
        found = session.query(
            f"SELECT id, document, name, created_at FROM records WHERE {where} {_NEWEST_FIRST}{most}", values
        )
        rows = found[:limit]
        items = tuple(self._codec.readable(row[:2] for row in rows))
        read = {record.id for record in items}
        more = len(found) > len(rows) and bool(rows)
        return Page(
            items=items,
            next=position_to_cursor(Position(rows[-1][3], rows[-1][0])) if more else None,
            unreadable=tuple(row[2] for row in rows if row[0] not in read),
        )

    def _beside(self, record: Record[Spec, Status]) -> tuple[int, str]:
        """Return what is kept beside the document, so that it need not be read."""
        summary = _GONE if record.deleting else msgspec.json.encode(self._whole_kind.summarize(record)).decode()
        return int(record.settled), summary

    def _unsettled(self, session: Session) -> Sequence[Record[Spec, Status]]:
        rows = session.query(
            f"SELECT id, document FROM records WHERE kind = ? AND settled = 0 {_NEWEST_FIRST}", (self._kind,)
        )
        return tuple(self._codec.readable(rows))

    def _summaries(self, session: Session, tenant: Tenant) -> Sequence[Summary]:
        rows = session.query(
            "SELECT name, created_at, summary FROM records WHERE kind = ? AND tenant = ?", (self._kind, tenant)
        )
        older = {name for name, _, summary in rows if not summary}  # written by a Gangline that kept none
        rows = [row for row in rows if row[2] not in ("", _GONE)]
        known = self._read_before
        new = [row for row in rows if row not in known]
        fields = _SUMMARIES.decode(f"[{','.join([row[2] for row in new])}]")  # at once: there are thousands
        fresh = {row: Summary(row[0], row[1], each) for row, each in zip(new, fields, strict=True)}
        found = [fresh.get(row) or known[row] for row in rows] if fresh else [known[row] for row in rows]
        self._read_before = dict(zip(rows, found, strict=True)) if fresh else known
        if older:
            whole = (record for record in self._page(session, tenant, None, None).items if record.name in older)
            found.extend(summaries_of(self._whole_kind, whole))
        return found

    def _remove(self, session: Session, record: Record[Spec, Status]) -> None:
        session.change("DELETE FROM records WHERE kind = ? AND id = ?", (self._kind, record.id))
