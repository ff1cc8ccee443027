"""Every store keeps the one contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.storage.interface import Store
from gangline.storage.memory import MemoryStore
from gangline.storage.sql import open_postgres, open_sqlite
from gangline.testing.record_store_suite import RecordStoreSuite
from gangline.testing.store_suite import StoreSuite
from tools.postgres import postgres_server


class TestMemoryStore(StoreSuite, RecordStoreSuite):
    reads_back = False

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        yield store
        await store.close()


class TestSqliteStore(StoreSuite, RecordStoreSuite):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = await open_sqlite(tmp_path / "gangline.db")
        yield store
        await store.close()


class TestPostgresStore(StoreSuite, RecordStoreSuite):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = await open_postgres(postgres_server().create_database())
        yield store
        await store.close()
