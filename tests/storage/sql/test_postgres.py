"""What is particular to PostgreSQL: lost connections, other processes, and the driver that may be missing."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg
import pytest

from gangline.errors import StaleVersionError, StorageError
from gangline.model import JobId
from gangline.storage.interface import JobQuery
from gangline.storage.sql import SqlStore, open_postgres
from gangline.storage.sql.postgres import PostgresDatabase
from gangline.testing.builders import make_job
from gangline.testing.store_suite import make_metric
from tools.postgres import postgres_server


@pytest.fixture
def address() -> str:
    return postgres_server().create_database()


@pytest.fixture
async def store(address: str) -> AsyncIterator[SqlStore]:
    store = await open_postgres(address)
    yield store
    await store.close()


async def test_lost_connections_are_made_again(address: str, store: SqlStore) -> None:
    """Every thread learns of its own loss from one failed call, and no more than one."""
    await asyncio.gather(*(store.remove(JobId(f"job-{number}")) for number in range(20)))
    with psycopg.connect(address, autocommit=True) as other:
        lost = other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gangline' "
            "AND datname = current_database()"
        ).fetchall()
    calls = (store.remove(JobId(f"job-{number}")) for number in range(200))
    failures = [outcome for outcome in await asyncio.gather(*calls, return_exceptions=True) if outcome]
    assert 1 <= len(failures) <= len(lost)
    assert all(isinstance(failure, StorageError) for failure in failures)
    await store.create(make_job())


async def test_two_services_guard_their_writes_against_each_other(address: str, store: SqlStore) -> None:
    other = await open_postgres(address)
    job = await store.create(make_job())
    seen = await other.get(job.id)
    await store.save(replace(job, failures=1))
    with pytest.raises(StaleVersionError):
        await other.save(replace(seen, failures=2))
    await other.close()


async def test_metrics_that_race_with_removal_are_no_error(store: SqlStore) -> None:
    for number in range(20):
        await store.create(make_job())
        metrics = [make_metric(step=step) for step in range(number)]
        await asyncio.gather(store.add_metrics(metrics), store.remove(JobId("job-1")), store.add_metrics(metrics))
    assert await store.metrics(JobId("job-1")) == ()


async def test_character_nul_in_names_and_labels_is_replaced_not_refused(store: SqlStore) -> None:
    await store.create(make_job(labels={"team": "a\0b"}))
    await store.add_metrics([make_metric(name="lo\0ss")])
    assert (await store.get(JobId("job-1"))).spec.labels == {"team": "a\0b"}
    assert len((await store.list(JobQuery(labels=(("team", "a\0b"),)))).jobs) == 1
    assert [metric.name for metric in await store.metrics(JobId("job-1"))] == ["lo\N{REPLACEMENT CHARACTER}ss"]


async def test_server_that_does_not_answer_is_named_without_the_password() -> None:
    with pytest.raises(StorageError) as caught:
        await open_postgres("postgresql://somebody:secret@/jobs?host=/nowhere")
    assert "PostgreSQL database 'jobs' at /nowhere" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_address_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(StorageError, match="PostgreSQL"):
        PostgresDatabase("the big server in the cellar")


def test_missing_driver_names_the_extra() -> None:
    program = "import sys; sys.modules['psycopg'] = None; import gangline.storage.sql.postgres"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "pip install 'gangline[postgres]'" in process.stderr.splitlines()[-1]
