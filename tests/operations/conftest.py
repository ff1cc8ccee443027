from pathlib import Path

import pytest

from tests.operations.fakes import Office


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "code")
