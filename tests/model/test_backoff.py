"""Pauses between attempts."""

from gangline.model import Backoff


def test_the_pause_doubles_with_every_failure_up_to_the_limit() -> None:
    assert [Backoff(0.5, 3.0).pause(failures) for failures in range(6)] == [0.5, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_no_number_of_failures_is_too_large() -> None:
    assert Backoff(1.0, float("inf")).pause(10**6) == 2.0**32
