"""The service is killed again and again while jobs stream through it."""

from pathlib import Path

import pytest

from tools.crash_drill import CrashDrill


@pytest.mark.slow
def test_nothing_is_lost_or_run_twice_when_the_service_is_killed_at_random_moments(tmp_path: Path) -> None:
    drill = CrashDrill(tmp_path, kills=15, seed=20)
    try:
        report = drill.run()
    finally:
        drill.clean()
    assert report.sound, report
    assert report.submitted > 10
