"""Every engine keeps the one contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.engines.local.machinery import LocalSubject

from gangline.testing.engine_suite import EngineSubject, EngineSuite


class TestLocalEngine(EngineSuite):
    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[EngineSubject]:
        async with LocalSubject.over(tmp_path) as subject:
            yield subject


class TestLocalEngineWithoutControlGroups(EngineSuite):
    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[EngineSubject]:
        async with LocalSubject.over(tmp_path, use_cgroups=False) as subject:
            yield subject
