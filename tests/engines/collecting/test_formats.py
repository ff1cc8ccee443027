"""Numbers in the forms in which programs write them."""

import json
import struct

import pytest

from gangline.engines.collecting.records import Found
from gangline.engines.collecting.tensorboard import read_events
from gangline.engines.collecting.text_lines import PatternReader, read_record
from gangline.model.jobs.metric_source import MetricFormat, MetricSource


def number(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def text(field: int, content: bytes) -> bytes:
    return number(field << 3 | 2) + number(len(content)) + content


def record(event: bytes) -> bytes:
    return struct.pack("<Q", len(event)) + b"head" + event + b"tail"


def scalar(tag: str, value: float, step: int, *, as_tensor: bool = False) -> bytes:
    """An event as TensorFlow 1 writes it, or as TensorFlow 2 does."""
    plain = number(2 << 3 | 5) + struct.pack("<f", value)
    tensor = text(8, number(1 << 3) + number(1) + text(4, struct.pack("<f", value)))
    summary = text(1, text(1, tag.encode()) + (tensor if as_tensor else plain))
    at = number(1 << 3 | 1) + struct.pack("<d", 1700000000.5)
    return record(at + number(2 << 3) + number(step) + text(5, summary))


def test_scalars_of_both_versions_are_read_and_a_torn_record_waits() -> None:
    version = record(number(1 << 3 | 1) + struct.pack("<d", 1.0) + text(3, b"brain.Event:2"))
    data = version + scalar("loss", 0.5, 300) + scalar("epoch/accuracy", 0.25, 7, as_tensor=True)
    want = [Found("loss", 0.5, 300, 1700000000.5), Found("epoch/accuracy", 0.25, 7, 1700000000.5)]
    assert read_events(data) == (want, len(data))
    assert read_events(data[:-1]) == (want[:1], len(version) + len(scalar("loss", 0.5, 300)))
    assert read_events(b"") == ([], 0)


def test_what_is_no_event_file_is_passed_over() -> None:
    assert read_events(b"\xff" * 100) == ([], 100)
    damaged = record(b"\xff\xff\xff")
    assert read_events(damaged + scalar("loss", 1.0, 1))[0] == [Found("loss", 1.0, 1, 1700000000.5)]


def source(pattern: str, **fields: object) -> MetricSource:
    return MetricSource(path="x", format=MetricFormat.PATTERN, pattern=pattern, values={"loss": "loss"}, **fields)  # type: ignore[arg-type]


def test_a_pattern_may_span_lines_and_finds_each_once() -> None:
    reader = PatternReader(source(r"step (?P<step>\d+)\nloss (?P<loss>\S+)", step="step", lines=2))
    lines = ["step 1\n", "loss 0.5\n", "noise\n", "step 2\n", "noise\n", "loss 0.4\n", "step 3\n", "loss none\n"]
    assert [found for line in lines for found in reader.read(line)] == [Found("loss", 0.5, 1)]


@pytest.mark.parametrize(
    ("meta", "want_at"),
    [({}, None), ({"time": 1700000000500}, 1700000000.5), ({"time": "2023-11-14T22:13:20+00:00"}, 1700000000.0)],
)
def test_a_record_of_ffdl_is_read_with_its_label_step_and_time(meta: object, want_at: float | None) -> None:
    plain = {
        "meta": meta,
        "grouplabel": "test",
        "etimes": {"iteration": {"type": "INT", "value": "12"}},
        "values": {"loss": {"type": "FLOAT", "value": "0.5"}, "name": {"type": "STRING", "value": "x"}},
    }
    assert list(read_record(json.dumps(plain))) == [Found("test/loss", 0.5, 12, want_at)]


@pytest.mark.parametrize("line", ["", "{", "[1]", '{"values": 3}', "null"])
def test_what_is_no_record_is_passed_over(line: str) -> None:
    assert list(read_record(line)) == []
