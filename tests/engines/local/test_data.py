"""The data stages: what is fetched before replicas start, what is stored after they succeeded, and the job's code."""

import hashlib
import io
import json
import os
import signal
import tarfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gangline.data.moving import move
from gangline.data.unpacking import PermanentError
from gangline.lifecycle.events import (
    DownloadStarted,
    GangFailed,
    GangStopped,
    OutputsStored,
    ReplicaExited,
    ReplicaStarted,
    TransferReported,
)
from gangline.model import CodeLimits, DataMove, Gang, Policy
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import eventually, place
from tests.engines.local.machinery import LocalSubject, marked_processes, record_of


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[LocalSubject]:
    async with LocalSubject.over(tmp_path) as subject:
        yield subject


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A web server over tmp_path/web; yields its address."""
    folder = tmp_path / "web"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def endless() -> Iterator[str]:
    """The address of a file whose bytes never come."""
    over = threading.Event()

    class Endless(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            over.wait()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/file"
        over.set()
        server.shutdown()
        thread.join()


def make_tree(root: Path) -> Path:
    (root / "inner").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "inner" / "b.txt").write_text("b")
    return root


def files_of(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


TREE = {"a.txt": "a", "inner/b.txt": "b"}


def test_a_file_takes_the_name_of_the_target(tmp_path: Path) -> None:
    make_tree(tmp_path / "from")
    move(str(tmp_path / "from/a.txt"), f"file://{tmp_path}/to/name.txt")
    assert files_of(tmp_path / "to") == {"name.txt": "a"}


@pytest.mark.parametrize("exists", [True, False])
def test_a_file_goes_into_a_directory(tmp_path: Path, exists: bool) -> None:
    make_tree(tmp_path / "from")
    if exists:
        (tmp_path / "to").mkdir()
    move(f"file://{tmp_path}/from/a.txt", f"{tmp_path}/to/")
    assert files_of(tmp_path / "to") == {"a.txt": "a"}


@pytest.mark.parametrize("exists", [True, False])
def test_a_directory_becomes_the_target_and_leaves_what_is_there(tmp_path: Path, exists: bool) -> None:
    make_tree(tmp_path / "from")
    want = dict(TREE)
    if exists:
        (tmp_path / "to" / "inner").mkdir(parents=True)
        (tmp_path / "to" / "inner" / "old.txt").write_text("old")
        (tmp_path / "to" / "a.txt").write_text("stale")
        want["inner/old.txt"] = "old"
    move(str(tmp_path / "from"), str(tmp_path / "to"))
    assert files_of(tmp_path / "to") == want


def test_a_web_page_is_fetched(tmp_path: Path, web: str) -> None:
    make_tree(tmp_path / "web" / "set")
    move(f"{web}/set/a.txt?version=1", f"{tmp_path}/to/")
    assert files_of(tmp_path / "to") == {"a.txt": "a"}


@pytest.mark.parametrize(
    ("source", "target", "want"),
    [
        ("relative/path", "{tmp}/to", "relative"),
        ("{tmp}/from/a.txt", "http://host/there", "nothing can be stored over http"),
        ("{web}/missing", "{tmp}/to", "404"),
    ],
    ids=["relative", "store over http", "not found"],
)
def test_what_can_never_work_says_so(tmp_path: Path, web: str, source: str, target: str, want: str) -> None:
    with pytest.raises(PermanentError, match=want.replace(".", r"\.")):
        move(source.format(tmp=tmp_path, web=web), target.format(tmp=tmp_path))
    assert not list(tmp_path.glob("to*"))


def test_a_server_that_is_not_there_is_worth_another_try(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        move("http://127.0.0.1:1/file", str(tmp_path / "to"))
    assert list(tmp_path.iterdir()) == []


async def gang_of(subject: LocalSubject, script: str, attempt: int = 1, replicas: int = 1, **fields: object) -> Gang:
    role = make_role(command=("sh", "-c", script), replicas=replicas)
    spec = make_spec(roles=(role,), policy=Policy(grace_seconds=1.0), **fields)
    return place(spec, await subject.node(), attempt=attempt)


async def test_inputs_are_there_before_replicas_start_and_outputs_after_they_succeeded(
    subject: LocalSubject, tmp_path: Path
) -> None:
    make_tree(tmp_path / "set")
    gang = await gang_of(
        subject,
        'cat "$DATA_DIR/a.txt" "$DATA_DIR/extra/b.txt" > "$RESULT_DIR/model"',
        inputs=(
            DataMove(f"{tmp_path}/set", "$DATA_DIR"),
            DataMove(f"file://{tmp_path}/set/inner", "${DATA_DIR}/extra"),
        ),
        outputs=(DataMove("$RESULT_DIR", f"{tmp_path}/out/$JOB_NAME"),),
    )
    await subject.engine.run(gang)
    (exited,) = await subject.news.wait_for(ReplicaExited)
    assert exited.exit_code == 0
    lives = [type(event) for event in subject.news.seen if not isinstance(event, TransferReported)]
    assert lives == [DownloadStarted, ReplicaStarted, ReplicaExited]
    await subject.engine.finish(gang)
    await subject.news.wait_for(OutputsStored)
    assert files_of(tmp_path / "out") == {"mnist/model": "ab"}
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    assert (subject.root / "jobs/job-1/results/model").read_text() == "ab"


async def test_inputs_are_fetched_once_for_all_attempts(subject: LocalSubject, tmp_path: Path) -> None:
    make_tree(tmp_path / "set")
    for attempt in (1, 2):
        gang = await gang_of(
            subject, 'cat "$DATA_DIR/a.txt"', attempt=attempt, inputs=(DataMove(f"{tmp_path}/set", "$DATA_DIR"),)
        )
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaExited, count=attempt)
        await subject.engine.stop(gang.id, 1.0)
        await subject.news.wait_for(GangStopped, count=attempt)
        (tmp_path / "set" / "a.txt").write_text("changed")
    assert [line.text for line in await subject.lines()] == ["a"]


@pytest.mark.parametrize(
    ("source", "want_permanent"),
    [("/no/such/file", True), ("http://127.0.0.1:1/file", False)],
)
async def test_a_failed_download_fails_the_gang(subject: LocalSubject, source: str, want_permanent: bool) -> None:
    gang = await gang_of(subject, "true", inputs=(DataMove(source, "$DATA_DIR"),))
    await subject.engine.run(gang)
    (failed,) = await subject.news.wait_for(GangFailed)
    assert (failed.reason, failed.permanent) == ("InputsFailed", want_permanent)
    assert source in failed.message
    await subject.engine.run(gang)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    assert not subject.news.of(ReplicaStarted)


@pytest.mark.parametrize(
    "fields",
    [
        {"inputs": (DataMove("ftp://host/key", "$DATA_DIR"),)},
        {"outputs": (DataMove("$RESULT_DIR", "ftp://host/key"),)},
    ],
    ids=["input", "output"],
)
async def test_an_address_that_nobody_knows_is_told_before_anything_starts(
    subject: LocalSubject, fields: dict[str, object]
) -> None:
    await subject.engine.run(await gang_of(subject, "true", **fields))
    (failed,) = await subject.news.wait_for(GangFailed)
    assert (failed.reason, failed.permanent) == ("CannotStart", True)
    assert "ftp:// is not known" in failed.message


async def test_outputs_that_cannot_be_stored_fail_the_gang(subject: LocalSubject) -> None:
    gang = await gang_of(subject, "true", outputs=(DataMove("$RESULT_DIR/nothing", "/proc/nowhere"),))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    await subject.engine.finish(gang)
    (failed,) = await subject.news.wait_for(GangFailed)
    assert failed.reason == "OutputsFailed"


async def downloading(subject: LocalSubject) -> list[int]:
    """The process that fetches the inputs, once there is one."""
    token = json.loads((subject.attempt() / "order.json").read_text())["token"]

    async def one() -> bool:
        return len(marked_processes(token)) == 1

    await eventually(one)
    return marked_processes(token)


async def test_a_stop_interrupts_a_download(subject: LocalSubject, endless: str) -> None:
    gang = await gang_of(subject, "true", inputs=(DataMove(endless, "$DATA_DIR"),))
    await subject.engine.run(gang)
    await subject.news.wait_for(DownloadStarted)
    await downloading(subject)
    await subject.engine.stop(gang.id, 30.0)
    await subject.news.wait_for(GangStopped)
    assert not subject.news.of(ReplicaStarted, GangFailed)


async def test_a_download_of_a_killed_keeper_is_ended_and_begun_again(subject: LocalSubject, endless: str) -> None:
    gang = await gang_of(subject, "true", inputs=(DataMove(endless, "$DATA_DIR"),))
    await subject.engine.run(gang)
    await subject.news.wait_for(DownloadStarted)
    first = await downloading(subject)
    os.kill(record_of(subject.attempt())["keeper_pid"], signal.SIGKILL)

    async def another_downloads() -> bool:
        return await downloading(subject) != first

    await eventually(another_downloads)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    token = json.loads((subject.attempt() / "order.json").read_text())["token"]
    assert marked_processes(token) == []
    assert not subject.news.of(GangFailed)


LEAVE_ODD_THINGS = """
echo trained > "$RESULT_DIR/step-40"
ln -s step-40 "$RESULT_DIR/best"
ln -s . "$RESULT_DIR/here"
mkfifo "$RESULT_DIR/pipe"
"""


async def test_odd_things_among_results_are_noted_and_fail_nothing(subject: LocalSubject, tmp_path: Path) -> None:
    outputs = (DataMove("$RESULT_DIR", f"{tmp_path}/out"),)
    gang = await gang_of(subject, LEAVE_ODD_THINGS, outputs=outputs)
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    await subject.engine.finish(gang)
    (stored,) = await subject.news.wait_for(OutputsStored)
    assert stored.note.endswith(": pipe (a pipe)")
    assert (tmp_path / "out/best").readlink() == Path("step-40")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["best", "here", "step-40"]


async def test_what_was_left_out_of_the_inputs_is_told_in_the_log(subject: LocalSubject, tmp_path: Path) -> None:
    make_tree(tmp_path / "set")
    os.mkfifo(tmp_path / "set" / "pipe")
    gang = await gang_of(subject, 'cat "$DATA_DIR/a.txt"', inputs=(DataMove(f"{tmp_path}/set", "$DATA_DIR"),))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    assert [line.text for line in await subject.lines()] == [
        f"[gangline] not copied from {tmp_path}/set: pipe (a pipe)",
        "a",
    ]


async def test_a_mover_that_is_ahead_of_the_engine_finds_nothing_in_its_way(
    subject: LocalSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine makes directories for replicas while their keeper starts; with inputs the mover makes them."""
    make_tree(tmp_path / "set")
    made: list[str] = []
    monkeypatch.setattr("gangline.engines.local.link.make_scratch", made.append)
    gang = await gang_of(subject, 'cat "$DATA_DIR/a.txt"', inputs=(DataMove(f"{tmp_path}/set", "$DATA_DIR"),))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    assert [line.text for line in await subject.lines()] == ["a"]
    assert made == []


async def test_a_copy_that_fails_says_so_in_a_sentence(subject: LocalSubject, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    gang = await gang_of(subject, "true", outputs=(DataMove("$RESULT_DIR", f"{tmp_path}/taken/out"),))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    await subject.engine.finish(gang)
    (failed,) = await subject.news.wait_for(GangFailed)
    assert failed.message == f"{tmp_path}/taken/out: Not a directory"


def make_archive(subject: LocalSubject, fill: Callable[[tarfile.TarFile], None]) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        fill(archive)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    place_of_code = subject.root / "code" / f"{digest}.tar.gz"
    place_of_code.parent.mkdir(parents=True, exist_ok=True)
    place_of_code.write_bytes(buffer.getvalue())
    return f"sha256:{digest}"


def add_file(archive: tarfile.TarFile, name: str, text: str = "") -> None:
    member = tarfile.TarInfo(name)
    member.size = len(text)
    member.mode = 0o755
    archive.addfile(member, io.BytesIO(text.encode()))


async def test_each_replica_has_its_own_copy_of_the_code(subject: LocalSubject) -> None:
    code = make_archive(subject, lambda archive: add_file(archive, "pkg/train.sh", "echo own >> mine; cat mine\n"))
    gang = await gang_of(subject, "sh pkg/train.sh", replicas=3, code=code)
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited, count=3)
    assert [line.text for line in await subject.lines()] == ["own"] * 3
    assert not subject.news.of(DownloadStarted)


def link_to(target: str, *, then: str | None = None) -> Callable[[tarfile.TarFile], None]:
    def fill(archive: tarfile.TarFile) -> None:
        member = tarfile.TarInfo("link")
        member.type = tarfile.SYMTYPE
        member.linkname = target
        archive.addfile(member)
        if then is not None:
            add_file(archive, then)

    return fill


@pytest.mark.parametrize(
    "fill",
    [
        lambda archive: add_file(archive, "../evil"),
        link_to("/etc", then="link/evil"),
        link_to("../..", then="link/evil"),
    ],
    ids=["path out", "through an absolute link", "through a relative link"],
)
async def test_code_that_would_be_written_outside_is_refused(
    subject: LocalSubject, fill: Callable[[tarfile.TarFile], None]
) -> None:
    gang = await gang_of(subject, "true", code=make_archive(subject, fill))
    await subject.engine.run(gang)
    (failed,) = await subject.news.wait_for(GangFailed)
    assert failed.permanent
    assert not list(subject.root.rglob("evil"))


async def test_code_that_would_be_unpacked_to_too_much_is_refused(tmp_path: Path) -> None:
    async with LocalSubject.over(tmp_path, code_limits=CodeLimits(unpacked_bytes=2**20)) as subject:
        code = make_archive(subject, lambda archive: add_file(archive, "zeros", "\0" * 2**21))
        await subject.engine.run(await gang_of(subject, "true", code=code))
        (failed,) = await subject.news.wait_for(GangFailed)
        assert (failed.permanent, failed.message) == (True, "the archive holds more than 1 MiB when it is unpacked")


async def test_a_link_to_data_elsewhere_is_kept(subject: LocalSubject, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("seven\n")
    code = make_archive(subject, link_to(str(tmp_path / "data")))
    await subject.engine.run(await gang_of(subject, "cat link", code=code))
    await subject.news.wait_for(ReplicaExited)
    assert [line.text for line in await subject.lines()] == ["seven"]


async def test_code_that_is_not_here_is_said_to_be_missing(subject: LocalSubject) -> None:
    gang = await gang_of(subject, "true", code=f"sha256:{'0' * 64}")
    await subject.engine.run(gang)
    (failed,) = await subject.news.wait_for(GangFailed)
    assert failed.permanent
    assert "submit the job again" in failed.message
