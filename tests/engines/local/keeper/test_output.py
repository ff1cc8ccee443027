"""The log writer: stamps, long lines, rotation, and a disk that is full."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.engines.local.keeper.output import LINE_LIMIT, LogWriter, failure_line, log_numbers
from tests.disks import small_disk
from tests.engines.last_words import LAST_WORDS

STAMP = b"2001-09-09T01:46:40.000000005Z"


def writer_in(directory: Path, **limits: int) -> LogWriter:
    limits = {"file_bytes": 1 << 20, "file_count": 4} | limits
    return LogWriter(str(directory), "worker-0", clock_ns=lambda: 1_000_000_000_000_000_005, **limits)


def content(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("worker-0.*.log")))


def test_each_line_carries_the_time_its_stream_and_whether_it_is_whole(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.feed("stdout", b"one\n\nthree\n")
    writer.feed("stderr", b"four\n")
    assert content(tmp_path).splitlines() == [
        STAMP + b" stdout F one",
        STAMP + b" stdout F ",
        STAMP + b" stdout F three",
        STAMP + b" stderr F four",
    ]


def test_a_line_that_arrives_in_parts_is_written_once(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    for part in (b"a", b"b", b"c\nd"):
        writer.feed("stdout", part)
    assert content(tmp_path) == STAMP + b" stdout F abc\n"
    writer.close()
    assert content(tmp_path).splitlines()[-1] == STAMP + b" stdout F d"


def texts(directory: Path) -> list[bytes]:
    return [entry.split(b" ", 3)[3] for entry in content(directory).splitlines()]


def test_a_progress_bar_is_shown_once_a_second_and_at_its_end(tmp_path: Path) -> None:
    millis = 0
    writer = LogWriter(str(tmp_path), "worker-0", file_bytes=1 << 20, file_count=4, clock_ns=lambda: millis * 1_000_000)
    for percent in range(101):
        millis = 40 * percent
        writer.feed("stderr", b"\rtraining: %3d%%" % percent)
    assert texts(tmp_path) == [b"training: %3d%%" % percent for percent in (0, 25, 50, 75, 100)]
    writer.feed("stderr", b"\rtraining: done\nnext\n")
    assert texts(tmp_path)[5:] == [b"training: done", b"next"]


@pytest.mark.parametrize(
    ("chunks", "seen"),
    [
        pytest.param([b"10%\r", b"20%\r", b"\n"], [b"10%", b"20%"], id="a bar that returns after each state"),
        pytest.param([b"\r10%", b"\r20%\n"], [b"10%", b"20%"], id="a bar that returns before each state"),
        pytest.param([b"\r10%\r20%\r100%\nend\n"], [b"100%", b"end"], id="a whole bar at once"),
        pytest.param([b"one\r\ntwo\r\n"], [b"one", b"two"], id="lines that end as on Windows"),
        pytest.param([b"one\r", b"\ntwo\n"], [b"one", b"two"], id="such a line in two parts"),
        pytest.param([b"\r50%", b"\r   \rmessage\n"], [b"50%", b"message"], id="a bar that gives way to a message"),
        pytest.param([b"\r50%"], [b"50%"], id="a bar that never ended"),
        pytest.param([b"\r50%", b" of 9"], [b"50%", b"50% of 9"], id="a bar that grew and never ended"),
    ],
)
def test_a_line_that_is_drawn_over_is_kept_as_a_terminal_shows_it(
    tmp_path: Path, chunks: list[bytes], seen: list[bytes]
) -> None:
    writer = writer_in(tmp_path)
    for chunk in chunks:
        writer.feed("stdout", chunk)
    writer.close()
    assert texts(tmp_path) == seen


@pytest.mark.parametrize("chunk", [1000, LINE_LIMIT, 1 << 20])
def test_a_long_line_is_written_in_pieces(tmp_path: Path, chunk: int) -> None:
    text = os.urandom(4 * LINE_LIMIT).translate(None, b"\r\n")[: 3 * LINE_LIMIT] + b"end"
    writer = writer_in(tmp_path)
    data = b"before\n" + text + b"\nafter\n"
    for start in range(0, len(data), chunk):
        writer.feed("stdout", data[start : start + chunk])
    entries = [line[len(STAMP) + 8 :] for line in content(tmp_path).split(b"\n")[:-1]]
    assert [entry[:1] for entry in entries] == [b"F", b"P", b"P", b"P", b"F", b"F"]
    assert b"".join(entry[2:] for entry in entries[1:5]) == text
    assert all(len(entry) <= LINE_LIMIT + 2 for entry in entries)


def test_bytes_that_are_not_text_are_kept_as_they_are(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.feed("stdout", b"\xff\x00\x80\n")
    assert content(tmp_path) == STAMP + b" stdout F \xff\x00\x80\n"


def test_the_newest_files_are_kept_and_none_is_larger_than_allowed(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, file_bytes=1000, file_count=3)
    for number in range(200):
        writer.feed("stdout", b"line %d\n" % number)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 1000 for file in files)
    assert content(tmp_path).endswith(b"line 199\n")
    assert log_numbers(str(tmp_path), "worker-0")[0] > 1


def test_one_chunk_may_fill_several_files(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, file_bytes=500, file_count=100)
    writer.feed("stdout", b"".join(b"line %d\n" % number for number in range(100)))
    lines = content(tmp_path).splitlines()
    assert [line.rpartition(b" ")[2] for line in lines] == [b"%d" % number for number in range(100)]


def test_a_writer_goes_on_where_an_earlier_one_ended(tmp_path: Path) -> None:
    for text in (b"first\n", b"second\n"):
        writer = writer_in(tmp_path)
        writer.feed("stdout", text)
        writer.close()
    assert [line.rpartition(b" ")[2] for line in content(tmp_path).splitlines()] == [b"first", b"second"]


def test_what_does_not_fit_is_counted_and_told_when_there_is_room(tmp_path: Path) -> None:
    """A file-size limit stands for a full disk: the write fails in the same way."""
    writer = writer_in(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        for _ in range(10):
            writer.feed("stdout", b"x" * 50 + b"\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    kept = content(tmp_path).splitlines()
    assert kept == [STAMP + b" stdout F " + b"x" * 50] * 2
    writer.feed("stdout", b"room again\n")
    note, last = content(tmp_path).splitlines()[2:]
    assert note == STAMP + b" stderr F [gangline] %d bytes of output were lost: File too large" % (
        8 * len(kept[0] + b"\n")
    )
    assert last.endswith(b"room again")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "256k") as disk:
        yield disk


def test_a_full_disk_loses_output_but_leaves_whole_lines(tiny_disk: Path) -> None:
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(b"x" * (200 << 10))
    writer = writer_in(tiny_disk)
    for number in range(2000):
        writer.feed("stdout", b"line %04d\n" % number)
    ballast.unlink()
    writer.close()
    lines = content(tiny_disk).splitlines()
    assert all(line.startswith(STAMP) for line in lines)
    assert b"bytes of output were lost: No space left on device" in lines[-1]


@pytest.mark.parametrize(("left", "want"), LAST_WORDS.values(), ids=LAST_WORDS)
def test_the_reason_is_chosen_from_the_last_words(left: str, want: str) -> None:
    assert failure_line(left.encode()) == want
