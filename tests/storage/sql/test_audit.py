"""The audit record in a database: added to, read, and nothing else."""

from pathlib import Path

import pytest

from gangline.errors import StorageError
from gangline.model import Tenant, Timestamp
from gangline.model.team.audit import AuditEntry
from gangline.storage.sql import open_sqlite
from gangline.storage.sql.database import Session


def entry(who: str, tenant: str) -> AuditEntry:
    return AuditEntry(
        at=Timestamp(1.0),
        who=who,
        origin="10.0.0.1",
        request="r",
        method="POST",
        path="/",
        status=200,
        tenant=Tenant(tenant),
    )


async def test_entries_come_back_newest_first_page_by_page(tmp_path: Path) -> None:
    store = await open_sqlite(tmp_path / "g.db")
    for who, tenant in (("a", "vision"), ("b", "speech"), ("c", "vision")):
        await store.audit.append(entry(who, tenant))
    assert [each.who for each in await store.audit.read(None, before=None, limit=9)] == ["c", "b", "a"]
    (newest,) = await store.audit.read(Tenant("vision"), before=None, limit=1)
    (older,) = await store.audit.read(Tenant("vision"), before=newest.number, limit=9)
    assert (newest.who, older.who) == ("c", "a")
    await store.close()


@pytest.mark.parametrize("statement", ["UPDATE audit SET document = ''", "DELETE FROM audit"])
async def test_the_database_refuses_to_change_or_delete_an_entry(tmp_path: Path, statement: str) -> None:
    store = await open_sqlite(tmp_path / "g.db")
    await store.audit.append(entry("a", "vision"))

    def forge(session: Session) -> None:
        session.change(statement)

    with pytest.raises(StorageError, match="append-only"):
        await store._threads.write(forge)
    assert len(await store.audit.read(None, before=None, limit=9)) == 1
    await store.close()
