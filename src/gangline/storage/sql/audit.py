"""The audit record as rows; the table itself refuses to have them changed or deleted."""

from collections.abc import Sequence
from dataclasses import replace

from gangline.model import Tenant
from gangline.model.team.audit import AuditEntry
from gangline.storage.audit import AuditLog
from gangline.storage.codec import Codec
from gangline.storage.sql.database import Session
from gangline.storage.sql.threads import SessionThreads

_CODEC = Codec(AuditEntry)


class SqlAudit:
    """Keeps entries in a table of their own."""

    def __init__(self, threads: SessionThreads) -> None:
        self._threads = threads

    async def append(self, entry: AuditEntry) -> None:
        """Add an entry; see AuditLog."""
        await self._threads.write(_append, entry)

    async def read(self, tenant: Tenant | None, *, before: int | None, limit: int) -> Sequence[AuditEntry]:
        """Return entries; see AuditLog."""
        return await self._threads.read(_read, tenant, before, limit)


def _append(session: Session, entry: AuditEntry) -> None:
    text = _CODEC.encode(entry)
    session.change("INSERT INTO audit (tenant, document) VALUES (?, ?)", (entry.tenant or "", text))


def _read(session: Session, tenant: Tenant | None, before: int | None, limit: int) -> Sequence[AuditEntry]:
    conditions, values = list[str](), list[str | int]()
    if tenant is not None:
        conditions.append("tenant = ?")
        values.append(tenant)
    if before is not None:
        conditions.append("number < ?")
        values.append(before)
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    rows = session.query(f"SELECT number, document FROM audit {where}ORDER BY number DESC LIMIT ?", (*values, limit))
    return [replace(_CODEC.decode(text), number=number) for number, text in rows]


_conforms: type[AuditLog] = SqlAudit
