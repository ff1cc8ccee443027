"""How far a transfer is: bytes, total, rate and the time left."""

from gangline.data.progress import Meter, Progress


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_rate_is_that_of_the_last_seconds_and_gives_the_time_left() -> None:
    time, told = Time(), list[Progress]()
    meter = Meter(told.append, clock=time)
    meter.expect(1000, 2)
    for second in range(1, 31):
        time.now = 100.0 + second
        meter.add(30 if second <= 10 else 20)
    assert told[9].bytes_per_second == 30
    assert told[29].bytes_per_second == 20
    assert told[29].moved_bytes == 700
    assert told[29].seconds_left == 15


def test_a_listener_is_told_twice_a_second_at_most_and_at_the_end() -> None:
    time, told = Time(), list[Progress]()
    meter = Meter(told.append, clock=time)
    meter.expect(100, 1)
    for _ in range(100):
        time.now += 0.01
        meter.add(1)
    meter.add(0, files=1)
    meter.finish()
    assert len(told) == 3
    assert (told[-1].moved_bytes, told[-1].moved_files, told[-1].seconds_left) == (100, 1, 0.0)


def test_nobody_knows_the_time_left_before_anything_has_come() -> None:
    assert (
        Progress(moved_bytes=0, total_bytes=1, moved_files=0, total_files=1, bytes_per_second=0.0).seconds_left is None
    )
