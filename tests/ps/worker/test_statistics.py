"""Where a worker's time goes: the parts of a step add up to the time that passed."""

import pytest

from gangline.ps.worker import statistics
from gangline.ps.worker.statistics import StepStatistics


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(statistics, "time", clock)
    return clock


def test_the_parts_of_a_step_add_up_though_values_are_taken_and_shards_awaited_between_steps(clock: Clock) -> None:
    measured = StepStatistics()
    for _ in range(3):
        clock.seconds += 1.0  # the training code computes
        with measured.spending("wait"):
            clock.seconds += 16.0  # for the next shard
        measured.begin_step()
        for part, seconds in {"push": 2.0, "wait": 4.0}.items():
            with measured.spending(part):
                clock.seconds += seconds
        measured.end_step(step=1, staleness=0, gradient_norm=1.0, loss=None)
        with measured.spending("pull"):
            clock.seconds += 8.0

    assert measured.totals == {"compute": 3.0, "push": 6.0, "pull": 24.0, "wait": 60.0}
    assert sum(measured.totals.values()) == clock.seconds - 100.0
