"""Every test of the parameter server has a job's secret in its environment, as programs of a job do."""

import pytest

from tests.ps.gang import SECRET_FILE


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANGLINE_SECRET_FILE", str(SECRET_FILE))
