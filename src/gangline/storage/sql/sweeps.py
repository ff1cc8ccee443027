"""Sweeps as rows. Every function runs in a thread that owns the session; writes, in a transaction."""

from dataclasses import replace

from gangline.errors import ConflictError, NotFoundError, StaleVersionError
from gangline.model import Tenant
from gangline.model.sweep import Sweep
from gangline.storage.codec import SWEEPS
from gangline.storage.sql.database import Session

_INSERT = "INSERT INTO sweeps (id, version, tenant, name, created_at, document) VALUES (?, ?, ?, ?, ?, ?)"


def create(session: Session, sweep: Sweep) -> Sweep:
    """Insert a sweep; the table itself refuses a second one of the same id or name."""
    created = replace(sweep, version=1)
    values = (sweep.id, 1, sweep.tenant, sweep.name, sweep.created_at, SWEEPS.encode(created))
    if not session.change(f"{_INSERT} ON CONFLICT DO NOTHING", values):
        raise ConflictError(f"tenant '{sweep.tenant}' has a sweep of the name '{sweep.name}' or the id '{sweep.id}'")
    return created


def save(session: Session, sweep: Sweep) -> Sweep:
    """Replace a sweep, unless somebody else did so since it was read."""
    saved = replace(sweep, version=sweep.version + 1)
    changed = session.change(
        "UPDATE sweeps SET version = ?, document = ? WHERE id = ? AND version = ?",
        (saved.version, SWEEPS.encode(saved), sweep.id, sweep.version),
    )
    if not changed:
        rows = session.query("SELECT version FROM sweeps WHERE id = ?", (sweep.id,))
        if not rows:
            raise NotFoundError("sweep", sweep.name)
        raise StaleVersionError("sweep", sweep.name, expected=sweep.version, found=rows[0][0])
    return saved


def read(session: Session, tenant: Tenant | None) -> tuple[Sweep, ...]:
    """Read sweeps, newest first."""
    where, values = ("", ()) if tenant is None else (" WHERE tenant = ?", (tenant,))
    rows = session.query(f"SELECT id, document FROM sweeps{where} ORDER BY created_at DESC, id DESC", values)
    return tuple(SWEEPS.readable(rows))


def remove(session: Session, tenant: Tenant, name: str) -> None:
    """Delete a sweep."""
    session.change("DELETE FROM sweeps WHERE tenant = ? AND name = ?", (tenant, name))
