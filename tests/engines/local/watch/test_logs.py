"""Reading kept output: merged, from the end, from a moment on, and onwards while files are rotated."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gangline.engines.interface import LogQuery
from gangline.engines.local.keeper.output import LogWriter, log_numbers
from gangline.engines.local.watch.logs import ReplicaLog, follow_logs, read_logs
from gangline.model import JobId, LogLine, ReplicaId, RoleName, Stream, Timestamp

SECOND = 1_000_000_000
JOB = JobId("job-1")


class Replica:
    """Writes a replica's log with times a test chooses."""

    def __init__(self, directory: Path, name: str = "worker-0", *, file_bytes: int = 1 << 20, files: int = 100) -> None:
        self.at = 0
        clock = lambda: self.at * SECOND  # noqa: E731  # a clock of one line
        self._writer = LogWriter(str(directory), name, file_bytes=file_bytes, file_count=files, clock_ns=clock)

    def say(self, at: int, *texts: bytes, stream: str = "stdout") -> None:
        self.at = at
        for text in texts:
            self._writer.feed(stream, text + b"\n")


async def read(directory: Path, **query: object) -> list[LogLine]:
    return [line async for line in read_logs(directory, LogQuery(job_id=JOB, **query), 1)]


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines]


async def test_lines_of_several_replicas_are_merged_by_time(tmp_path: Path) -> None:
    first, second = Replica(tmp_path, "worker-0"), Replica(tmp_path, "ps-0")
    first.say(1, b"a")
    second.say(2, b"b", stream="stderr")
    first.say(3, b"c")
    lines = await read(tmp_path)
    assert texts(lines) == ["a", "b", "c"]
    assert (lines[1].stream, lines[1].at, str(lines[1].replica)) == (Stream.STDERR, 2.0, "ps-0")


async def test_a_long_line_is_one_line_again(tmp_path: Path) -> None:
    Replica(tmp_path).say(1, b"x" * 100_000, b"after")
    assert texts(await read(tmp_path)) == ["x" * 100_000, "after"]


async def test_bytes_that_are_not_text_arrive_as_replacement_characters(tmp_path: Path) -> None:
    Replica(tmp_path).say(1, b"caf\xe9 \xff", "déjà".encode())
    assert texts(await read(tmp_path)) == ["caf\N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}", "déjà"]


@pytest.mark.parametrize("tail", [0, 1, 5, 49, 50, 51, 1000])
@pytest.mark.parametrize("file_bytes", [200, 1 << 20], ids=["many files", "one file"])
async def test_a_tail_is_the_end_of_the_whole(tmp_path: Path, tail: int, file_bytes: int) -> None:
    replica = Replica(tmp_path, file_bytes=file_bytes)
    for number in range(50):
        replica.say(number, b"line %d" % number)
    assert texts(await read(tmp_path, tail=tail)) == [f"line {number}" for number in range(50)][max(0, 50 - tail) :]


@pytest.mark.parametrize("query", [{}, {"tail": 2}], ids=["all", "tail"])
@pytest.mark.parametrize("file_bytes", [200, 1 << 20], ids=["many files", "one file"])
async def test_what_is_written_while_it_is_read_is_left_to_the_next_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: dict[str, int], file_bytes: int
) -> None:
    replica = Replica(tmp_path, file_bytes=file_bytes)
    for number in range(10):
        replica.say(number, b"line %d" % number)
    for step in ("go_to_tail", "lines"):
        method = getattr(ReplicaLog, step)

        def writing(log: ReplicaLog, *arguments: int, _method: Callable[..., object] = method) -> object:
            replica.say(20, *[b"later"] * 50)
            return _method(log, *arguments)

        monkeypatch.setattr(ReplicaLog, step, writing)
    assert texts(await read(tmp_path, **query)) == [f"line {number}" for number in range(10)][-query.get("tail", 10) :]


async def test_a_tail_counts_a_long_line_once(tmp_path: Path) -> None:
    Replica(tmp_path).say(1, b"first", b"y" * 600_000, b"last")
    assert [len(text) for text in texts(await read(tmp_path, tail=2))] == [600_000, 4]
    assert texts(await read(tmp_path, tail=1)) == ["last"]


@pytest.mark.parametrize("since", [0.0, 1.0, 24.5, 25.0, 49.0, 50.0])
@pytest.mark.parametrize("file_bytes", [200, 1 << 20], ids=["many files", "one file"])
async def test_since_is_inclusive(tmp_path: Path, since: float, file_bytes: int) -> None:
    replica = Replica(tmp_path, file_bytes=file_bytes)
    for number in range(50):
        replica.say(number, b"line %d" % number)
    want = [f"line {number}" for number in range(50) if number >= since]
    assert texts(await read(tmp_path, since=Timestamp(since))) == want


async def test_role_and_index_narrow(tmp_path: Path) -> None:
    for name in ("worker-0", "worker-1", "worker-ps-0"):
        Replica(tmp_path, name).say(1, name.encode())
    assert texts(await read(tmp_path, role=RoleName("worker"))) == ["worker-0", "worker-1"]
    assert texts(await read(tmp_path, role=RoleName("worker-ps"))) == ["worker-ps-0"]
    assert texts(await read(tmp_path, index=1)) == ["worker-1"]


async def test_following_goes_across_rotation_and_finds_replicas_that_come_later(tmp_path: Path) -> None:
    replica = Replica(tmp_path, file_bytes=200)
    replica.say(1, b"0")
    over = False
    seen: list[str] = []

    async def follow() -> None:
        async for line in follow_logs(tmp_path, LogQuery(job_id=JOB, follow=True), 1, over=lambda: over):
            seen.append(line.text)

    following = asyncio.create_task(follow())
    for number in range(1, 30):
        replica.say(number + 1, b"%d" % number)
        if number % 7 == 0:
            await asyncio.sleep(0.06)
    Replica(tmp_path, "worker-1").say(100, b"late")
    over = True
    async with asyncio.timeout(60):
        await following
    assert seen == [*(str(number) for number in range(30)), "late"]


def test_what_is_written_while_a_file_is_left_for_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Replica(tmp_path, file_bytes=200)
    replica.say(1, b"0")

    def numbers_a_moment_later(directory: str, name: str) -> list[int]:
        monkeypatch.undo()
        for number in range(1, 10):
            replica.say(number + 1, b"%d" % number)
        return log_numbers(directory, name)

    log = ReplicaLog(tmp_path, ReplicaId(RoleName("worker"), 0), 1)
    assert texts(list(log.lines())) == ["0"]
    monkeypatch.setattr("gangline.engines.local.watch.logs.log_numbers", numbers_a_moment_later)
    assert texts(list(log.lines())) == [str(number) for number in range(1, 10)]


async def test_following_a_job_that_is_deleted_meanwhile_just_ends(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    Replica(logs).say(1, b"a")
    found = []
    async for line in follow_logs(logs, LogQuery(job_id=JOB), 1, over=lambda: not logs.exists()):
        found.append(line.text)
        await asyncio.to_thread(shutil.rmtree, logs)
    assert found == ["a"]


def test_a_log_that_is_gone_has_no_lines(tmp_path: Path) -> None:
    log = ReplicaLog(tmp_path / "gone", ReplicaId(RoleName("worker"), 0), 1)
    log.go_to_tail(5)
    assert list(log.lines()) == []
