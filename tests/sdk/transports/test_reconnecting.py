"""Going on after a gap: the service is killed or restarted, and nothing is lost, told twice or made twice."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pytest

from gangline.errors import NotFoundError, UnreachableError, WaitTimeoutError
from gangline.kinds.queue import QUEUE
from gangline.model import LogLine, Queue, QueueName, QueueStatus, ReplicaId, RoleName, Stream, Timestamp
from gangline.model.record import Page, Record, RecordId
from gangline.sdk import Change, Client
from gangline.sdk.following import LogMarks
from gangline.sdk.transports.interface import Request
from gangline.sdk.transports.reconnecting import Reconnection, reconnected
from gangline.testing.builders import START, make_job, make_spec
from gangline.wire import codec


def gone(times: int) -> Callable[[], None]:
    """A service that answers after so many questions."""
    left = iter(range(times))

    def ask() -> None:
        if next(left, None) is not None:
            raise UnreachableError("nobody answers")

    return ask


def line(text: str, at: float, *, index: int = 0, attempt: int = 1) -> LogLine:
    replica = ReplicaId(RoleName("worker"), index)
    return LogLine(replica=replica, attempt=attempt, at=Timestamp(at), stream=Stream.STDOUT, text=text)


def texts(lines: Iterator[LogLine]) -> list[str]:
    return [each.text for each in lines]


def test_a_gap_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    Reconnection().cross(UnreachableError("the connection broke"), gone(2))
    assert caplog.messages == [
        "the connection broke; waiting up to 30 s for it",
        "the service answers again",
    ]


def test_a_service_that_answers_at_once_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    Reconnection().cross(UnreachableError("the connection broke"), gone(0))
    assert not caplog.messages


def test_a_service_that_stays_away_ends_the_wait_for_everybody_who_shares_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reconnection = Reconnection(patience_seconds=0.1)
    for _ in range(2):
        with pytest.raises(UnreachableError, match="nobody answers"):
            reconnection.cross(UnreachableError("the connection broke"), gone(100))
    assert len(caplog.messages) == 1


def test_a_service_that_answers_but_breaks_every_stream_is_given_up() -> None:
    reconnection = Reconnection(patience_seconds=0.1)

    def follow() -> None:
        while True:
            reconnection.cross(UnreachableError("the connection broke"), gone(0))

    with pytest.raises(UnreachableError, match="the connection broke"):
        follow()


def test_the_time_of_the_command_runs_during_a_gap() -> None:
    with pytest.raises(WaitTimeoutError):
        Reconnection().cross(UnreachableError("the connection broke"), gone(100), deadline=0.0)


def test_a_stream_that_ends_early_is_begun_again() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise UnreachableError("broke")

    parts = iter([broken(), iter([2]), iter([3])])
    rests = iter([False, False, False, True])
    """Asked after each gap, too: the stream goes on in any case, and the last word is the stream's own."""
    found = reconnected(
        next(parts), again=lambda: next(parts), over=lambda: next(rests, True), reconnection=Reconnection()
    )
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


class ScriptedTransport:
    """A service that answers as it was told to."""

    address = "nowhere"

    def __init__(self, answers: Mapping[str, Iterator[Iterable[bytes] | Exception]]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def send(self, request: Request) -> "ScriptedAnswer":
        query = dict(request.query)
        kind = next((name for name in ("watch", "follow") if name in query), request.method)
        self.asked.append(f"{kind} {request.path}")
        answer = next(self._answers[kind])
        if isinstance(answer, Exception):
            raise answer
        return ScriptedAnswer(answer)

    def close(self) -> None:
        """There is nothing to close."""


class ScriptedAnswer:
    def __init__(self, lines: Iterable[bytes]) -> None:
        self.status = 200
        self._lines = lines

    def read(self) -> bytes:
        return b"".join(self._lines)

    def lines(self) -> Iterator[bytes]:
        return iter(self._lines)


def broken(*lines: bytes) -> Iterator[bytes]:
    yield from lines
    raise UnreachableError("the connection broke")


def client_of(monkeypatch: pytest.MonkeyPatch, **answers: list[Iterable[bytes] | Exception]) -> Client:
    transport = ScriptedTransport({kind: iter(given) for kind, given in answers.items()})
    monkeypatch.setattr("gangline.sdk.client.transport_to", lambda _, **given: transport)
    return Client("unix:nowhere")


def encoded(value: object) -> bytes:
    return codec(type(value)).encode(value)


def test_a_list_goes_on_after_a_gap_with_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (Change(job_id=job.id, job=job) for job in (make_job(), make_job(job_id="job-2")))
    streams = [broken(encoded(old)), [encoded(old), encoded(new)]]
    seen = client_of(monkeypatch, watch=streams, GET=[[b"{}"]]).watch_all()
    assert [next(seen), next(seen)] == [old, new]


def test_a_watch_goes_on_after_a_gap_until_its_job_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job()
    change = encoded(Change(job_id=job.id, job=job))
    gone = NotFoundError("job", "mnist")
    client = client_of(monkeypatch, watch=[broken(change), [change]], GET=[[encoded(job)], gone])
    assert [seen.job for seen in client.watch("mnist")] == [job, job]


def test_a_submission_is_repeated_under_the_same_id(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job()
    client = client_of(monkeypatch, POST=[UnreachableError("the connection broke"), [encoded(job)]], GET=[[b"{}"]])
    assert client.submit(make_spec()) == job


def test_what_is_asked_of_a_record_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Record(id=RecordId("q"), spec=Queue(name=QueueName("q")), status=QueueStatus(), created_at=START)
    answer = codec(QUEUE.answer).encode(queue)
    page = codec(Page[QUEUE.answer]).encode(Page(items=(queue,)))  # type: ignore[name-defined]
    lost, alive = UnreachableError("the connection broke"), [b"{}"]
    client = client_of(
        monkeypatch,
        PUT=[lost, [answer]],
        POST=[lost, [answer]],
        GET=[alive, alive, lost, alive, [answer], lost, alive, [page]],
    )
    assert client.queues.edit(queue.spec, version=1) == queue
    assert client.queues.do("q", "verb") == queue
    assert client.queues.get("q") == queue
    assert client.queues.list() == (queue,)


def test_output_ends_quietly_with_a_job_that_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [[encoded(make_job())], NotFoundError("job", "mnist")]
    client = client_of(monkeypatch, GET=answers, follow=[[encoded(line("one", 1.0))]])
    assert texts(client.logs("mnist", follow=True)) == ["one"]


def test_output_goes_on_after_a_gap_without_losing_or_repeating_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = encoded(line("one", 1.0)), encoded(line("two", 2.0))
    running = [encoded(replace(make_job(), attempt=1))]
    client = client_of(
        monkeypatch,
        follow=[broken(one), [one, two]],
        GET=[running, running, running, NotFoundError("job", "mnist")],
    )
    assert texts(client.logs("mnist", follow=True)) == ["one", "two"]
