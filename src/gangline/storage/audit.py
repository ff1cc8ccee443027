"""Keeping the audit record: it is added to and read, and nothing else."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from gangline.model import Tenant
from gangline.model.team.audit import AuditEntry


class AuditLog(Protocol):
    """An append-only record."""

    async def append(self, entry: AuditEntry) -> None:
        """Add an entry; it gets the next number."""
        ...

    async def read(self, tenant: Tenant | None, *, before: int | None, limit: int) -> Sequence[AuditEntry]:
        """Return entries of a tenant, or of all for None, newest first, with numbers below ``before``."""
        ...


class MemoryAudit:
    """Keeps entries in a list."""

    def __init__(self) -> None:
        self._entries: list[AuditEntry] = []

    async def append(self, entry: AuditEntry) -> None:
        """Add an entry; see AuditLog."""
        self._entries.append(replace(entry, number=len(self._entries) + 1))

    async def read(self, tenant: Tenant | None, *, before: int | None, limit: int) -> Sequence[AuditEntry]:
        """Return entries; see AuditLog."""
        found = [
            each
            for each in reversed(self._entries)
            if tenant in (None, each.tenant) and (before is None or each.number < before)
        ]
        return found[:limit]


_conforms: type[AuditLog] = MemoryAudit
