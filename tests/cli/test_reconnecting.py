"""Following through a gap: the service is killed or restarted, and nothing of the output is lost or told twice."""

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gangline.cli.patient_client import LogMarks, PatientClient
from gangline.cli.reconnecting import Bridge, unbroken
from gangline.errors import NotFoundError, UnreachableError, WaitTimeoutError
from gangline.model import Job, ReplicaId, RoleName, Timestamp
from gangline.sdk import Change, Client, LogLine
from gangline.sdk.background import running_process
from gangline.testing.builders import make_job
from tests.cli.conftest import Shell

GATED = "echo one; until [ -e {gate} ]; do sleep 0.02; done; echo two; echo three; exit 7"
TWICE = "echo try $GANGLINE_ATTEMPT; until [ -e {gate} ]; do sleep 0.02; done; echo end $GANGLINE_ATTEMPT; exit 3"


def nothing() -> None:
    """There is nothing to start."""


def gone(times: int) -> Callable[[], None]:
    """A service that answers after so many questions."""
    left = iter(range(times))

    def ask() -> None:
        if next(left, None) is not None:
            raise UnreachableError("nobody answers")

    return ask


def line(text: str, at: float, *, index: int = 0, attempt: int = 1) -> LogLine:
    replica = ReplicaId(RoleName("worker"), index)
    return LogLine(replica=replica, attempt=attempt, at=Timestamp(at), stream="stdout", text=text)


def texts(lines: Iterator[LogLine]) -> list[str]:
    return [each.text for each in lines]


def test_a_gap_is_told_once_and_so_is_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    Bridge(nothing).cross(UnreachableError("the connection broke"), gone(2))
    assert capsys.readouterr().err.splitlines() == [
        "the connection broke; waiting up to 30 s for it",
        "the service answers again",
    ]


def test_a_service_that_answers_at_once_is_not_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    Bridge(nothing).cross(UnreachableError("the connection broke"), gone(0))
    assert capsys.readouterr().err == ""


def test_a_service_that_stays_away_ends_the_wait_for_everybody_who_shares_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bridge = Bridge(nothing, patience_seconds=0.1)
    for _ in range(2):
        with pytest.raises(UnreachableError, match="nobody answers"):
            bridge.cross(UnreachableError("the connection broke"), gone(100))
    assert capsys.readouterr().err.count("the connection broke") == 1


def test_a_service_that_answers_but_breaks_every_stream_is_given_up() -> None:
    bridge = Bridge(nothing, patience_seconds=0.1)

    def follow() -> None:
        while True:
            bridge.cross(UnreachableError("the connection broke"), gone(0))

    with pytest.raises(UnreachableError, match="the connection broke"):
        follow()


def test_the_time_of_the_command_runs_during_a_gap() -> None:
    with pytest.raises(WaitTimeoutError):
        Bridge(nothing).cross(UnreachableError("the connection broke"), gone(100), deadline=0.0)


def test_a_stream_that_ends_early_is_begun_again() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise UnreachableError("broke")

    parts = iter([broken(), iter([2]), iter([3])])
    rests = iter([False, False, False, True])
    """Asked after each gap, too: the stream goes on in any case, and the last word is the stream's own."""
    found = unbroken(next(parts), again=lambda: next(parts), over=lambda: next(rests, True), bridge=Bridge(nothing))
    assert list(found) == [1, 2, 3]


def test_lines_of_one_moment_are_neither_lost_nor_repeated() -> None:
    marks = LogMarks()
    texts(marks.unread(iter([line("a", 1.0), line("b", 2.0), line("c", 2.0)])))
    again = [line("a", 1.0), line("b", 2.0), line("c", 2.0), line("d", 2.0), line("e", 3.0)]
    assert texts(marks.unread(iter(again))) == ["d", "e"]
    assert texts(marks.unread(iter([*again, line("f", 3.0)]))) == ["f"]


def test_replicas_and_attempts_are_read_each_on_its_own() -> None:
    marks = LogMarks()
    texts(marks.unread(iter([line("quick", 5.0)])))
    late = [line("slow", 4.0, index=1), line("quick", 5.0), line("next", 3.0, attempt=2)]
    assert texts(marks.unread(iter(late))) == ["slow", "next"]
    assert marks.last_attempt == 2


def test_a_tail_stays_a_tail_after_a_gap() -> None:
    old_and_new = [line("old", 1.0), line("new", 9.0)]
    assert texts(LogMarks().unread(iter(old_and_new), floor=Timestamp(5.0))) == ["new"]


def test_a_list_goes_on_after_a_gap_with_what_is_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old, new = (Change(job_id=job.id, job=job) for job in (make_job(), make_job(job_id="job-2")))

    def broken() -> Iterator[Change]:
        yield old
        raise UnreachableError("the connection broke")

    streams = iter((broken(), iter((old, new))))
    monkeypatch.setattr(Client, "watch_all", lambda *_, **__: next(streams))
    monkeypatch.setattr(Client, "list", lambda *_, **__: ())
    seen = PatientClient(f"unix:{tmp_path}/nobody").watch_all()
    assert [next(seen), next(seen)] == [old, new]


def test_output_ends_quietly_with_a_job_that_is_deleted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = iter((make_job(),))

    def get(client: Client, job: str) -> Job:
        if (found := next(answers, None)) is None:
            raise NotFoundError("job", job)
        return found

    monkeypatch.setattr(Client, "get", get)
    monkeypatch.setattr(Client, "logs", lambda *_, **__: iter((line("one", 1.0),)))
    assert texts(PatientClient(f"unix:{tmp_path}/nobody").logs("mnist", follow=True)) == ["one"]


def start(shell: Shell, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        shell.command(*arguments),
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_line(follower: subprocess.Popen[str]) -> str:
    assert follower.stdout is not None
    return follower.stdout.readline()


def kill_service(shell: Shell) -> None:
    """Kill the service without warning, and return when it is gone."""
    process = running_process(shell.settings)
    assert process is not None
    handle = os.pidfd_open(process)
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    assert select.select([handle], [], [], 60.0)[0], "the service is still there"
    os.close(handle)


def test_a_follower_outlives_the_service_it_follows_through(fresh_shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    follower = start(
        fresh_shell, "submit", "--name", "gap", "--max-attempts", "1", "--follow", "sh", "-c", GATED.format(gate=gate)
    )
    assert first_line(follower) == "one\n"
    kill_service(fresh_shell)
    gate.touch()
    out, err = follower.communicate(timeout=120)
    assert (follower.returncode, out) == (7, "two\nthree\n"), err
    assert err.count("starting the local service") == 2
    assert "gap is FAILED" in err


def test_a_follower_tells_the_rest_of_an_attempt_that_ended_meanwhile(fresh_shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    follower = start(
        fresh_shell, "submit", "--name", "twice", "--max-attempts", "2", "--follow", "sh", "-c", TWICE.format(gate=gate)
    )
    assert first_line(follower) == "try 1\n"
    kill_service(fresh_shell)
    gate.touch()
    out, err = follower.communicate(timeout=120)
    assert (follower.returncode, out.splitlines()) == (3, ["end 1", "try 2", "end 2"]), err


def test_logs_and_wait_go_on_after_a_restart(fresh_shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    fresh_shell.out("submit", "--name", "again", "--max-attempts", "1", "sh", "-c", GATED.format(gate=gate))
    reader, waiter = start(fresh_shell, "logs", "-f", "again"), start(fresh_shell, "wait", "again")
    assert first_line(reader) == "one\n"
    fresh_shell.out("server", "stop")
    gate.touch()
    fresh_shell.out("server", "start")
    out, err = reader.communicate(timeout=120)
    assert (reader.returncode, out) == (0, "two\nthree\n"), err
    _, err = waiter.communicate(timeout=120)
    assert waiter.returncode == 7, err
