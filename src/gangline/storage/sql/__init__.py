"""The store in a SQL database: SQLite in a file (the default), or PostgreSQL for a team.

``open_sqlite`` and ``open_postgres`` are all a composition root needs. Everything but the two small modules
``sqlite`` and ``postgres`` is written once for both.
"""

from pathlib import Path

from gangline.storage.sql.store import SqlStore

__all__ = ["SqlStore", "open_postgres", "open_sqlite"]


async def open_sqlite(path: Path) -> SqlStore:
    """Open the store in this file, making or upgrading it as needed; raises StorageError naming the path."""
    from gangline.storage.sql.sqlite import SqliteDatabase

    return await SqlStore.open(SqliteDatabase(path))


async def open_postgres(address: str) -> SqlStore:
    """Open the store in the database at a libpq address (``postgresql://...``); raises StorageError."""
    from gangline.storage.sql.postgres import PostgresDatabase

    return await SqlStore.open(PostgresDatabase(address))
