"""What becomes of gangs on a full disk: they go on, and nothing that happened to them is missed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.lifecycle.events import GangFailed, GangStopped, ReplicaExited, ReplicaStarted
from gangline.model import Gang, Policy
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import eventually, place
from tests.disks import enlarge, fill, small_disk
from tests.engines.local.machinery import LocalSubject


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as disk:
        yield disk


async def gang_of(subject: LocalSubject, script: str, replicas: int = 1, **fields: object) -> Gang:
    role = make_role(command=("sh", "-c", script), replicas=replicas)
    spec = make_spec(roles=(role,), policy=Policy(grace_seconds=1.0), **fields)
    return place(spec, await subject.node())


async def test_a_replica_outlives_a_full_disk_and_its_exit_is_not_missed(disk: Path) -> None:
    async with LocalSubject.over(disk) as subject:
        gang = await gang_of(
            subject, 'yes | head -c 4000000; echo done > "$GO"; exit 5', env={"GO": str(disk.parent / "go")}
        )
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted)

        async def has_written_all() -> bool:
            return (disk.parent / "go").exists()

        await eventually(has_written_all)
        # Room for all that may still be in the pipe: stamped, each of its short lines takes many times its size.
        enlarge(disk, "64m")
        (exited,) = await subject.news.wait_for(ReplicaExited)
        assert exited.exit_code == 5
        assert json.loads((subject.attempt() / "state.json").read_text())["replicas"][0]["exit_code"] == 5
        # The keeper may still be reading when room is made: the note stands where output was lost, not always last.
        assert any("bytes of output were lost: No space left" in line.text for line in await subject.lines())


async def test_an_exit_on_a_full_disk_is_told_once_there_is_room(disk: Path) -> None:
    go = disk.parent / "go"
    async with LocalSubject.over(disk) as subject:
        gang = await gang_of(subject, 'while [ ! -e "$GO" ]; do sleep 0.02; done; exit 5', env={"GO": str(go)})
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted)
        fill(disk)
        go.touch()
        draft = subject.attempt() / "state.json.draft"

        async def has_tried_to_record() -> bool:
            return draft.exists()

        await eventually(has_tried_to_record)
        enlarge(disk, "64m")
        (exited,) = await subject.news.wait_for(ReplicaExited)
        assert exited.exit_code == 5


async def test_a_gang_goes_on_when_it_is_found_again_on_a_full_disk(disk: Path) -> None:
    async with LocalSubject.over(disk) as subject:
        gang = await gang_of(subject, "exec sleep 1000")
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted)
        fill(disk)
        await subject.restart()
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted)
        assert len((await subject.engine.usage()).replicas) == 1
        assert not subject.news.of(GangFailed)
        (disk / "filler").unlink()
        await subject.engine.stop(gang.id, 1.0)
        await subject.news.wait_for(GangStopped)


async def test_a_gang_that_grows_on_a_full_disk_gets_its_replicas_once_there_is_room(disk: Path) -> None:
    async with LocalSubject.over(disk) as subject:
        gang = await gang_of(subject, "exec sleep 1000")
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted)
        fill(disk)
        larger = await gang_of(subject, "exec sleep 1000", replicas=2)
        await subject.engine.run(larger)
        assert not subject.news.of(GangFailed)
        (disk / "filler").unlink()
        await subject.news.wait_for(ReplicaStarted, count=2)
        await subject.engine.stop(gang.id, 1.0)
        await subject.news.wait_for(GangStopped)


async def test_a_gang_that_cannot_be_begun_on_a_full_disk_says_why(disk: Path) -> None:
    async with LocalSubject.over(disk) as subject:
        gang = await gang_of(subject, "true")
        fill(disk)
        await subject.engine.run(gang)
        (failed,) = await subject.news.wait_for(GangFailed)
        assert (failed.reason, failed.permanent, failed.blameless) == ("CannotStart", False, True)
        assert "No space left on device" in failed.message


async def test_a_gang_is_stopped_while_the_disk_is_full(disk: Path) -> None:
    async with LocalSubject.over(disk) as subject:
        gang = await gang_of(subject, "exec sleep 1000")
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted)
        fill(disk)
        await subject.engine.stop(gang.id, 1.0)
        await subject.news.wait_for(GangStopped)
