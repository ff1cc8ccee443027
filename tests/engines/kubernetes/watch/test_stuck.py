"""Which warnings mean that a pod will not start by itself."""

from datetime import UTC, datetime

import pytest

from gangline.engines.kubernetes.watch.stuck import reason_told
from gangline.kube import Event


def warning(reason: str, message: str = "no", *, count: int | None = 1, second: int = 0) -> Event:
    return Event(
        reason=reason, message=message, count=count, last_timestamp=datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("warnings", "want"),
    [
        pytest.param([], None, id="none"),
        pytest.param([warning("BackOff", count=9)], None, id="about something else"),
        pytest.param([warning("FailedMount", "failed to fetch token")], None, id="a mount that failed once"),
        pytest.param(
            [warning("FailedMount", "failed to sync configmap cache: timed out waiting for the condition", count=5)],
            None,
            id="a busy kubelet that has not heard of a volume's object yet",
        ),
        pytest.param([warning("FailedMount", count=5)], ("VolumeUnavailable", "no"), id="a mount that keeps failing"),
        pytest.param([warning("FailedScheduling", count=None)], ("DevicesUnavailable", "no"), id="said once"),
        pytest.param(
            [warning("FailedCreatePodSandBox", "last", count=3, second=9), warning("FailedMount", count=3)],
            ("SandboxFailed", "last"),
            id="the last of several",
        ),
    ],
)
def test_a_warning_counts_when_it_will_not_pass(warnings: list[Event], want: tuple[str, str] | None) -> None:
    told = reason_told(warnings)
    assert (None if told is None else (told.reason, told.message)) == want
