"""Where things lie below the engine's root."""

from pathlib import Path

from gangline.engines.local.layout import Layout
from gangline.lifecycle.events import GangStopped, ReplicaExited
from gangline.model import GangId, JobId
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import place
from tests.engines.local.machinery import LocalSubject

SOCKET_PATH_BYTES = 107
MANAGER = "pymp-xxxxxxxx/listener-xxxxxxxx"
"""Where Python's multiprocessing makes a socket below TMPDIR."""


def test_programs_may_make_sockets_below_their_temporary_directory() -> None:
    layout = Layout(Path("/home/somebody-here/.local/share/gangline"))
    scratch = layout.short_scratch(GangId(JobId("j0123456789abcd"), 12))
    assert len(f"{scratch}/worker-12/tmp/{MANAGER}") <= SOCKET_PATH_BYTES


async def test_the_short_way_to_the_scratch_goes_with_the_job(tmp_path: Path) -> None:
    async with LocalSubject.over(tmp_path) as subject:
        role = make_role(command=("sh", "-c", 'echo kept > "$TMPDIR/note"; cat "$HOME/tmp/note"'))
        gang = place(make_spec(roles=(role,)), await subject.node())
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaExited)
        assert [line.text for line in await subject.lines()] == ["kept"]
        short = Layout(subject.root).short_scratch(gang.id)
        assert short.is_symlink()
        await subject.engine.stop(gang.id, 0.0)
        await subject.news.wait_for(GangStopped)
        await subject.engine.forget(gang.id.job_id)
        assert not short.is_symlink()
