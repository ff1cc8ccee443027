"""What is particular to the store in a file: damage, full disks, other processes and sudden death."""

import asyncio
import contextlib
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.errors import StorageError, StorageFullError
from gangline.model import JobId, JobPage, Metric
from gangline.storage.interface import JobQuery
from gangline.storage.sql import SqlStore, open_sqlite
from gangline.storage.sql.sqlite import SqliteDatabase
from gangline.testing.builders import make_job
from gangline.testing.store_suite import make_metric, make_record
from tests.disks import fill, small_disk

WRITER = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from gangline.storage.sql import open_sqlite
from gangline.testing.builders import make_job
from gangline.testing.store_suite import make_record

async def main(path, life):
    store = await open_sqlite(Path(path))
    for number in range(1_000_000):
        name = f"life-{life}-job-{number}"
        job = await store.create(make_job(job_id=name, name=name, labels={"life": life}), [make_record("1")])
        for _ in range(3):
            print(job.id, job.version, flush=True)
            job = await store.save(replace(job, failures=job.failures + 1), [make_record(str(job.version + 1))])

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gangline.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqlStore]:
    store = await open_sqlite(path)
    yield store
    await store.close()


def test_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("dear diary, " * 100)
    with pytest.raises(StorageError, match=r"gangline\.db.*not a database"):
        asyncio.run(open_sqlite(path))
    assert path.read_text() == "dear diary, " * 100


async def test_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere/gangline\.db"):
        await open_sqlite(tmp_path / "nowhere" / "gangline.db")


async def test_path_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    # The kernel's process directory is read-only even for root, unlike a directory without write permission.
    directory = Path("/proc/self")
    if os.geteuid() != 0:
        directory = tmp_path / "sealed"
        directory.mkdir(mode=0o500)
    with pytest.raises(StorageError, match=f"{directory}/gangline.db"):
        await open_sqlite(directory / "gangline.db")


async def test_database_is_readable_by_its_owner_alone(path: Path, store: SqlStore) -> None:
    await store.create(make_job(env={"TOKEN": "secret"}))
    files = [path, path.with_name("gangline.db-wal"), path.with_name("gangline.db-shm")]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3


async def test_full_disk_loses_only_the_write_that_did_not_fit(path: Path, store: SqlStore) -> None:
    job = await store.create(make_job())
    await _limit_pages(store, 1)
    with pytest.raises(StorageError, match=r"gangline\.db.*full"):
        await store.save(job, [make_record("x" * 100_000)])
    assert await store.journal(job.id) == ()
    await _limit_pages(store, 1_000_000)
    await store.save(job, [make_record()])
    assert len(await store.journal(job.id)) == 1


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "80m") as disk:
        yield disk


async def test_on_a_full_disk_jobs_are_saved_and_removed_and_no_new_ones_taken(disk: Path) -> None:
    path = disk / "gangline.db"
    store = await open_sqlite(path)
    jobs = [await store.create(make_job(job_id=f"{number}", name=f"job-{number}")) for number in range(10)]
    fill(disk)
    with pytest.raises(StorageFullError, match="the disk is full; delete jobs"):
        await store.create(make_job(job_id="large", name="large"), [make_record("x" * 1_000_000)])
    for _ in range(20):
        jobs = [await store.save(job, [make_record("x" * 1000)]) for job in jobs]
    for job in jobs:
        await store.remove(job.id)
    assert not path.with_name("gangline.db-reserve").exists()
    await store.close()


async def test_a_store_is_opened_again_on_a_full_disk(disk: Path) -> None:
    path = disk / "gangline.db"
    store = await open_sqlite(path)
    job = await store.create(make_job())
    await store.close()
    fill(disk)
    store = await open_sqlite(path)
    await store.save(replace(job, failures=1))
    assert (await store.get(job.id)).failures == 1
    await store.close()


@pytest.mark.parametrize(("size", "want_kib"), [("1m", 0), ("10m", 1280), ("80m", 8192)])
async def test_room_is_set_aside_by_what_there_is(tmp_path: Path, size: str, want_kib: int) -> None:
    with small_disk(tmp_path / "disk", size) as disk:
        store = await open_sqlite(disk / "gangline.db")
        await store.create(make_job())
        await store.close()
        reserve = disk / "gangline.db-reserve"
        kept = reserve.stat().st_size >> 10 if reserve.exists() else 0
        assert want_kib * 0.8 <= kept <= want_kib


async def _grow(store: SqlStore) -> None:
    """Fill the store with jobs of which each leaves much behind."""
    for number in range(20):
        job = make_job(job_id=f"{number}", name=f"job-{number}")
        await store.create(job, [make_record("x" * 500_000)])
    await store.close()


def _size(path: Path) -> int:
    return path.stat().st_size


async def _until_smaller(path: Path, size: int) -> None:
    async with asyncio.timeout(60):
        while _size(path) > size:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_the_file_becomes_smaller_when_jobs_are_removed(path: Path, store: SqlStore) -> None:
    await _grow(store)
    size = _size(path)
    store = await open_sqlite(path)
    for number in range(1, 20):
        await store.remove(JobId(f"{number}"))
        # Others write meanwhile.
        await store.create(make_job(job_id=f"new-{number}", name=f"new-{number}"))
    await _until_smaller(path, size // 4)
    assert len((await store.journal(JobId("0")))[0].message) == 500_000
    assert len((await store.list(JobQuery(limit=100))).jobs) == 20
    await store.close()


async def test_a_file_of_an_earlier_version_becomes_smaller_too(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("CREATE TABLE earlier (text TEXT)")
    await _grow(await open_sqlite(path))
    size = _size(path)
    store = await open_sqlite(path)
    for number in range(1, 20):
        await store.remove(JobId(f"{number}"))
    await _until_smaller(path, size // 4)
    assert len((await store.journal(JobId("0")))[0].message) == 500_000
    await store.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def _limit_pages(store: SqlStore, pages: int) -> None:
    """Make the file as large as it may ever become; SQLite raises a limit below the present size to that size."""
    await store._threads.write(lambda session: session.query(f"PRAGMA max_page_count = {pages}"))


@pytest.mark.parametrize(
    "metric",
    [
        pytest.param(make_metric(step=2**63), id="a step beyond 64 bits"),
        pytest.param(make_metric(name="\udcff"), id="a name that is not Unicode"),
    ],
)
async def test_value_that_no_column_holds_is_a_storage_error(store: SqlStore, metric: Metric) -> None:
    await store.create(make_job())
    with pytest.raises(StorageError):
        await store.add_metrics([metric])
    assert await store.metrics(JobId("job-1")) == ()


async def test_readers_do_not_wait_for_a_writer(path: Path, store: SqlStore) -> None:
    await store.create(make_job())
    other = SqliteDatabase(path).connect()
    with other.transaction():
        other.change("UPDATE jobs SET version = 99")
        async with asyncio.timeout(60):
            assert (await store.get(JobId("job-1"))).version == 1
            assert len((await store.list(JobQuery())).jobs) == 1
    other.close()


async def test_writer_waits_for_another_process(path: Path, store: SqlStore) -> None:
    other = SqliteDatabase(path).connect()
    with other.transaction():
        creation = asyncio.create_task(store.create(make_job()))
        await asyncio.wait([creation], timeout=0.05)
        assert not creation.done()
    assert (await creation).version == 1
    other.close()


async def test_close_finishes_what_was_begun_and_ends_the_threads(path: Path) -> None:
    before = set(threading.enumerate())
    store = await open_sqlite(path)
    creations = [
        asyncio.create_task(store.create(make_job(job_id=f"job-{number}", name=f"job-{number}")))
        for number in range(50)
    ]
    await asyncio.wait(creations, return_when=asyncio.FIRST_COMPLETED)
    await store.close()
    assert all(creation.result() for creation in creations)
    left = [thread.name for thread in set(threading.enumerate()) - before if "gangline" in thread.name]
    assert left == []


async def test_what_was_acknowledged_survives_kill(path: Path) -> None:
    """Kill the writer at random moments, life after life, in the same file."""
    randomness = random.Random(20)
    acknowledged: dict[JobId, int] = {}
    for life in range(6):
        acknowledged.update(await asyncio.to_thread(_write_until_killed, path, life, randomness.randrange(1, 300)))
        await _check(path, acknowledged)
    assert len(acknowledged) > 100


def _write_until_killed(path: Path, life: int, lines: int) -> dict[JobId, int]:
    """Run a writer, kill it when it has acknowledged so many writes and is busy with the next; return them all."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), f"{life}"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    heard = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    heard += process.stdout.readlines()
    process.stdout.close()
    assert process.wait() == -9
    whole = (line.split() for line in heard if line.endswith("\n"))
    return {JobId(job_id): int(version) for job_id, version in whole}


async def _check(path: Path, acknowledged: dict[JobId, int]) -> None:
    store = await open_sqlite(path)
    for job_id, version in acknowledged.items():
        job = await store.get(job_id)
        assert job.version in (version, version + 1), job_id  # the next write may have been kept unheard
        assert job.failures == job.version - 1
        records = await store.journal(job_id)
        assert [record.message for record in records] == [str(each) for each in range(1, job.version + 1)]
    await store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


async def test_record_of_an_older_version_is_read(path: Path, store: SqlStore) -> None:
    job = await store.create(make_job())
    other = SqliteDatabase(path).connect()
    with other.transaction():
        other.change("UPDATE jobs SET document = json_remove(document, '$.failures', '$.spec.policy')")
    other.close()
    kept = await store.get(job.id)
    assert kept == make_job()
    assert (await store.save(replace(kept, failures=1))).version == 2


async def test_damaged_record_does_not_hide_the_others(path: Path, store: SqlStore) -> None:
    await store.create(make_job(job_id="bad", name="bad"))
    await store.create(make_job(job_id="good", name="good"))
    other = SqliteDatabase(path).connect()
    with other.transaction():
        other.change("UPDATE jobs SET document = 'torn' WHERE id = 'bad'")
    other.close()
    with pytest.raises(StorageError, match="a kept job is unreadable"):
        await store.get(JobId("bad"))
    assert (await store.get(JobId("good"))).id == "good"
    assert [job.id async for job in store.unfinished()] == ["good"]
    assert [job.id for job in (await store.list(JobQuery())).jobs] == ["good"]


async def test_a_page_of_damaged_records_is_not_the_last(path: Path, store: SqlStore) -> None:
    for name in ("first", "second", "third"):
        await store.create(make_job(job_id=name, name=name))
    other = SqliteDatabase(path).connect()
    with other.transaction():
        other.change("UPDATE jobs SET document = 'torn' WHERE id = 'second'")
    other.close()
    found: list[str] = []
    page = JobPage(jobs=(), next=None)
    for _ in range(3):
        page = await store.list(JobQuery(limit=1, after=page.next))
        found += [job.id for job in page.jobs]
    assert (found, page.next) == (["third", "first"], None)
