"""Amounts and times as people write them."""

import pytest

from gangline.dialects import quantities


@pytest.mark.parametrize(
    ("text", "want"), [(1, 1000), ("500m", 500), (0.5, 500), ("0.1", 100), ("2", 2000), ("1k", 10**6), ("100u", 1)]
)
def test_cpus_are_thousandths(text: str | float, want: int) -> None:
    assert quantities.cpu_millis(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [("1Gi", 1024), ("512Mi", 512), ("2G", 1908), ("1Gb", 954), ("8GiB", 8192), (1048576, 1), ("1e9", 954), ("0", 0)],
)
def test_memory_is_mebibytes_rounded_up(text: str | int, want: int) -> None:
    assert quantities.memory_mib(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [(90, 90), ("90", 90), ("90s", 90), ("1h30m", 5400), ("7d", 604800), ("2w", 1209600), ("1.5h", 5400), (0, 0)],
)
def test_times_are_seconds(text: str | int, want: float) -> None:
    assert quantities.seconds(text) == want


@pytest.mark.parametrize("text", ["", "x", "1Zi", "1.2.3", "--1", "1e999", "99999E"])
def test_nonsense_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match="is "):
        quantities.memory_mib(text)


@pytest.mark.parametrize("text", ["", "soon", "1y", "-3", "nan", "inf", "1h 30m"])
def test_nonsense_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is "):
        quantities.seconds(text)


@pytest.mark.parametrize(
    ("seconds", "want"), [(604800, "7d"), (5400, "90m"), (7200, "2h"), (30, "30s"), (0, "0s"), (0.5, 0.5)]
)
def test_times_are_written_in_the_largest_whole_unit(seconds: float, want: str | float) -> None:
    assert quantities.seconds_text(seconds) == want
