"""The schema is brought up to date once, in order, by whoever comes first."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gangline.errors import StorageError
from gangline.model import JobId, NamedAmounts
from gangline.storage.interface import JobQuery, Store
from gangline.storage.owned import read_queues
from gangline.storage.sql import open_postgres, open_sqlite
from gangline.storage.sql.database import Session
from gangline.storage.sql.migrations import Migration, migrations_of
from gangline.storage.sql.postgres import PostgresDatabase
from gangline.storage.sql.sqlite import SqliteDatabase
from gangline.testing.builders import make_job
from tools.postgres import postgres_server

OPEN_TOGETHER = """
import multiprocessing, sys
from pathlib import Path
from gangline.storage.sql.migrations import migrate
from gangline.storage.sql.sqlite import SqliteDatabase

PROCESSES, ROUNDS = 4, 150

def open_all(directory, together):
    for number in range(ROUNDS):
        database = SqliteDatabase(Path(directory) / f"{number}.db")
        together.wait(60)
        session = database.connect()
        with session.transaction():
            migrate(session, database)
        session.close()

fork = multiprocessing.get_context("fork")
together = fork.Barrier(PROCESSES)
processes = [fork.Process(target=open_all, args=(sys.argv[1], together)) for _ in range(PROCESSES)]
for process in processes:
    process.start()
for process in processes:
    process.join()
sys.exit(sum(process.exitcode != 0 for process in processes))
"""


def test_both_dialects_have_the_same_numbers_without_gaps() -> None:
    names = {dialect: [each.name for each in migrations_of(dialect)] for dialect in ("sqlite", "postgresql")}
    assert names["sqlite"] == names["postgresql"]
    assert [each.number for each in migrations_of("sqlite")] == list(range(1, len(names["sqlite"]) + 1))


def test_script_is_split_into_statements() -> None:
    script = "-- why; because\nCREATE TABLE a (\n    b TEXT\n);\n\nCREATE TABLE c (d TEXT);\n"
    statements = Migration(number=1, name="0001_a", script=script).statements()
    assert [" ".join(statement.split()) for statement in statements] == [
        "CREATE TABLE a ( b TEXT )",
        "CREATE TABLE c (d TEXT)",
    ]


async def test_reopened_file_has_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "gangline.db"
    store = await open_sqlite(path)
    await store.create(make_job())
    await store.close()
    store = await open_sqlite(path)
    assert await store.get(JobId("job-1")) == make_job()
    await store.close()


async def test_file_of_a_newer_gangline_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gangline.db"
    await (await open_sqlite(path)).close()
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("INSERT INTO migrations VALUES (9999, '9999_from_the_future')")
    connection.close()
    with pytest.raises(StorageError, match=r"gangline\.db.*newer Gangline.*9999.*upgrade"):
        await open_sqlite(path)


async def test_failed_migration_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "gangline.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE metrics (belongs_to TEXT)")  # collides in the middle of the first migration
    connection.close()
    with pytest.raises(StorageError, match="metrics already exists"):
        await open_sqlite(path)
    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    connection.close()
    assert tables == [("metrics",)]


OLD_LIMIT = {"cpu_millis": 1000, "memory_mib": 0, "gpu_millis": 0, "extended": {"example.com/a.b": 2}}
OLD_QUEUES = {"bound": {"name": "bound", "limit": OLD_LIMIT}, "free": {"name": "free", "limit": None}}
WANT_LIMIT = NamedAmounts({"cpu_millis": 1000, "memory_mib": 0, "gpu_millis": 0, "example.com/a.b": 2})


def insert_old_queues(session: Session) -> None:
    """As they were kept when a limit had an amount of everything."""
    session.change("DELETE FROM migrations WHERE number >= 7", ())
    for name, spec in OLD_QUEUES.items():
        document = json.dumps({"id": name, "spec": spec, "status": {}, "created_at": 0, "version": 1})
        session.change(
            "INSERT INTO records (kind, id, version, tenant, name, created_at, document) VALUES (?, ?, 1, '', ?, 0, ?)",
            ("queue", name, name, document),
        )


async def limits_in(store: Store) -> dict[str, NamedAmounts | None]:
    return {str(each.name): each.limit for each in await read_queues(store) if each.name in OLD_QUEUES}


async def test_limits_of_before_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "gangline.db"
    await (await open_sqlite(path)).close()
    session = SqliteDatabase(path).connect()
    with session.transaction():
        insert_old_queues(session)
    session.close()
    store = await open_sqlite(path)
    assert await limits_in(store) == {"bound": WANT_LIMIT, "free": None}
    await store.close()


async def test_limits_of_before_keep_their_numbers_in_postgres() -> None:
    address = postgres_server().create_database()
    await (await open_postgres(address)).close()
    session = PostgresDatabase(address).connect()
    with session.transaction():
        insert_old_queues(session)
    session.close()
    store = await open_postgres(address)
    assert await limits_in(store) == {"bound": WANT_LIMIT, "free": None}
    await store.close()


def test_processes_that_make_the_same_file_in_the_same_instant_all_succeed(tmp_path: Path) -> None:
    """SQLite refuses some of them without waiting; it takes many rounds to provoke that."""
    command = [sys.executable, "-c", OPEN_TOGETHER, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.stderr == ""
    assert process.returncode == 0


async def test_stores_that_prepare_the_same_postgres_database_at_once_all_succeed() -> None:
    address = postgres_server().create_database()
    stores = await asyncio.gather(*(open_postgres(address) for _ in range(4)))
    for number, store in enumerate(stores):
        await store.create(make_job(job_id=f"job-{number}", name=f"job-{number}"))
    assert len((await stores[0].list(JobQuery())).jobs) == 4
    for store in stores:
        await store.close()
