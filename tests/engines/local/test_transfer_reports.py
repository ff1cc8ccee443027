"""What movers tell while they work: how far they are, and the digests of what they have moved."""

import hashlib
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gangline.data.trees import content_digest
from gangline.engines.transfer_report import read_report
from gangline.lifecycle.events import GangStopped, OutputsStored, ReplicaExited, TransferReported
from gangline.model import DataMove, Gang, GangId, JobId, Policy, Timestamp
from gangline.model.jobs.transfer import DataVersion
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import place
from tests.engines.local.machinery import LocalSubject

SIZE = 4 << 20


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[LocalSubject]:
    async with LocalSubject.over(tmp_path) as subject:
        yield subject


@pytest.fixture
def halves() -> Iterator[tuple[str, threading.Event]]:
    """A file whose second half comes when the event is set."""
    more = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(SIZE))
            self.end_headers()
            self.wfile.write(b"x" * (SIZE // 2))
            self.wfile.flush()
            more.wait(60)
            self.wfile.write(b"x" * (SIZE // 2))

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/file", more
        more.set()
        server.shutdown()
        thread.join()


async def gang_of(subject: LocalSubject, **fields: object) -> Gang:
    role = make_role(command=("sh", "-c", 'echo done > "$RESULT_DIR/model"'))
    return place(make_spec(roles=(role,), policy=Policy(grace_seconds=1.0), **fields), await subject.node())


def reports(subject: LocalSubject, *, storing: bool = False) -> list[TransferReported]:
    return subject.news.of(TransferReported, lambda event: event.storing is storing)


def moved_of(report: TransferReported) -> int:
    return report.progress.moved_bytes if report.progress else 0


async def test_a_download_tells_how_far_it_is_and_what_came(
    subject: LocalSubject, halves: tuple[str, threading.Event], tmp_path: Path
) -> None:
    address, more = halves
    (tmp_path / "small").write_bytes(b"small")
    moves = (DataMove(str(tmp_path / "small"), "$DATA_DIR/"), DataMove(address, "$DATA_DIR/"))
    gang = await gang_of(subject, inputs=moves, outputs=(DataMove("$RESULT_DIR", str(tmp_path / "out")),))
    await subject.engine.run(gang)
    (report,) = await subject.news.wait_for(TransferReported, where=lambda each: moved_of(each) > 5)
    half = report.progress
    assert half is not None
    assert (half.moved_bytes, half.total_bytes) == (SIZE // 2 + 5, SIZE + 5)
    assert (half.move, half.moves) == (2, 2)
    more.set()
    await subject.news.wait_for(ReplicaExited)
    small, large = hashlib.sha256(b"small").hexdigest(), hashlib.sha256(b"x" * SIZE).hexdigest()
    fetched = (DataVersion(str(tmp_path / "small"), f"sha256:{small}"), DataVersion(address, f"sha256:{large}"))
    assert reports(subject)[-1].moved == fetched
    await subject.engine.finish(gang)
    await subject.news.wait_for(OutputsStored)
    stored = reports(subject, storing=True)[-1]
    assert stored.moved == (DataVersion(str(tmp_path / "out"), content_digest(tmp_path / "out")),)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


async def test_the_next_attempt_tells_of_what_an_earlier_one_fetched(subject: LocalSubject, tmp_path: Path) -> None:
    (tmp_path / "set").write_bytes(b"small")
    gang = await gang_of(subject, inputs=(DataMove(str(tmp_path / "set"), "$DATA_DIR/"),))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    first = reports(subject)[-1].moved
    (tmp_path / "set").unlink()
    again = await gang_of(subject, inputs=gang.spec.inputs)
    again = Gang(id=GangId(gang.id.job_id, 2), spec=again.spec, replicas=again.replicas)
    await subject.engine.run(again)
    await subject.news.wait_for(TransferReported, where=lambda each: each.attempt == 2)
    assert reports(subject)[-1].moved == first
    await subject.engine.stop(again.id, 1.0)
    await subject.news.wait_for(GangStopped, count=2)


@pytest.mark.parametrize("text", [b"", b"{", b'{"stage": "somewhere"}', b'{"stage": "inputs", "moved": [1]}'])
def test_what_is_not_a_report_is_passed_over(text: bytes) -> None:
    assert read_report(text, GangId(JobId("j"), 1), Timestamp(1.0)) is None
