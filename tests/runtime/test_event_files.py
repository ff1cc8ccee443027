"""Event files that we write."""

import math

import pytest

from gangline.runtime.event_files import Scalar, first_record, read_events, write_events


def test_what_is_written_is_read_again() -> None:
    scalars = [Scalar("loss", 0.5, 0, 100.0), Scalar("größe/x", -2.0, 2**40, 101.5)]
    data = first_record(100.0) + write_events(scalars)
    assert read_events(data) == (scalars, len(data))


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e300, -1e300])
def test_numbers_that_do_not_fit_are_infinite(value: float) -> None:
    (found,), _ = read_events(write_events([Scalar("x", value, 1, 1.0)]))
    assert found.value == math.copysign(math.inf, value)


def test_the_checksums_are_those_of_tensorboard() -> None:
    # What TensorBoard's own writer wrote for this moment.
    want = "1800000000000000a37f4b220900008070da5dda411a0d627261696e2e4576656e743a326adfa675"
    assert first_record(1769433538.0).hex() == want
