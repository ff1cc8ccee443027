"""Whatever is killed, at whatever moment: nothing is lost, nothing runs twice, nothing is left."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.lifecycle.events import GangFailed, GangStopped, ReplicaExited, ReplicaLost, ReplicaStarted
from gangline.model import Gang, GangReplica
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import Program, eventually, place, with_replicas
from tests.engines.local.machinery import LocalSubject, groups_of, marked_processes, record_of

REPOSITORY = Path(__file__).parents[3]
KILLS = 12
GANGS = 12


@pytest.fixture(params=[True, False], ids=["with control groups", "without control groups"])
async def subject(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalSubject]:
    async with LocalSubject.over(tmp_path, use_cgroups=request.param) as subject:
        yield subject


def token_of(attempt: Path) -> str:
    return json.loads((attempt / "order.json").read_text())["token"]


def host_is_killed_after(command: list[str], seconds: float) -> None:
    host = subprocess.Popen(command, cwd=REPOSITORY)
    try:
        host.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        host.kill()
        host.wait()


async def nobody_is_active(subject: LocalSubject) -> None:
    """Wait for the markers to go; each goes just after the keeper's record has told of the end."""

    async def no_marker_is_left() -> bool:
        return not list((subject.root / "active").iterdir())

    await eventually(no_marker_is_left)


async def test_a_host_killed_at_random_moments_loses_and_repeats_nothing(tmp_path: Path) -> None:
    dice = random.Random(20)
    async with LocalSubject.over(tmp_path) as subject:
        command = [sys.executable, "-m", "tests.engines.local.host", str(subject.root), str(GANGS)]
        for _ in range(KILLS):
            await asyncio.to_thread(host_is_killed_after, command, 0.1 + dice.random() * 0.5)
        await asyncio.to_thread(subprocess.run, command, cwd=REPOSITORY, timeout=60, check=True)
        runs = [(subject.root / f"jobs/job-{number}/results/runs").read_text() for number in range(GANGS)]
        assert runs == ["ran\n"] * GANGS
        await nobody_is_active(subject)
        tokens = [token_of(subject.attempt(f"job-{number}")) for number in range(GANGS)]
        assert not any(marked_processes(token) for token in tokens)
        assert not any(groups_of(subject.attempt(f"job-{number}")) for number in range(GANGS))


@pytest.mark.parametrize("moment", range(12))
async def test_an_engine_dropped_at_any_moment_is_followed_by_one_that_goes_on(tmp_path: Path, moment: int) -> None:
    async with LocalSubject.over(tmp_path) as subject:
        node = await subject.node()
        role = make_role(replicas=2, command=("sh", "-c", 'echo ran >> "$RESULT_DIR/runs"; sleep 0.1'))
        gang = place(make_spec(roles=(role,)), node)
        await subject.engine.run(gang)
        await asyncio.sleep(moment * 0.02)
        await subject.restart()
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaExited, count=2)
        await subject.engine.stop(gang.id, 1.0)
        await asyncio.sleep(moment * 0.002)
        await subject.restart()
        await subject.engine.stop(gang.id, 1.0)
        await subject.news.wait_for(GangStopped)
        assert (subject.root / "jobs/job-1/results/runs").read_text() == "ran\n" * 2
        assert groups_of(subject.attempt()) == []


async def test_a_gang_whose_keeper_cannot_start_leaves_nothing(
    subject: LocalSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    gang = place(make_spec(roles=(subject.role("worker", Program.SUCCEED),)), await subject.node())
    await subject.engine.run(gang)
    (failed,) = await subject.news.wait_for(GangFailed)
    assert failed.reason == "KeeperFailed"
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    assert groups_of(subject.attempt()) == []
    assert not (subject.attempt() / "scratch").exists()


async def test_an_engine_that_is_closed_while_a_keeper_starts_lets_it_come_up(
    subject: LocalSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gang = await subject.gang(subject.role("worker", Program.SERVE))
    slow = tmp_path / "slow-python"
    slow.write_text(f'#!/bin/sh\nln -s /proc/$$ {tmp_path}/starting\nsleep 0.3\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    await subject.engine.run(gang)

    async def has_begun() -> bool:
        return (tmp_path / "starting").is_symlink()

    await eventually(has_begun)
    await subject.close()
    assert not (tmp_path / "starting").exists()
    await subject.restart()
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaStarted)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


async def test_replicas_of_a_killed_keeper_are_lost_and_leave_no_process(subject: LocalSubject) -> None:
    away = make_role("worker", replicas=2, command=("sh", "-c", "setsid sleep 1000 & echo up; sleep 1000"))
    gang = place(make_spec(roles=(away, subject.role("chief", Program.FAIL))), await subject.node())
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaStarted, count=3)
    await subject.news.wait_for(ReplicaExited)

    async def all_run() -> bool:
        return len(marked_processes(token_of(subject.attempt()))) >= 4

    await eventually(all_run)
    os.kill(record_of(subject.attempt())["keeper_pid"], signal.SIGKILL)
    lost = await subject.news.wait_for(ReplicaLost, count=2)
    assert {str(event.replica) for event in lost} == {"worker-0", "worker-1"}
    assert marked_processes(token_of(subject.attempt())) == []
    await subject.engine.run(gang)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    assert len(subject.news.of(ReplicaStarted)) == 3
    assert groups_of(subject.attempt()) == []


async def test_a_lost_replica_can_be_started_again_in_place(subject: LocalSubject) -> None:
    gang = await subject.gang(subject.role("worker", Program.SERVE))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaStarted)
    os.kill(record_of(subject.attempt())["keeper_pid"], signal.SIGKILL)
    await subject.news.wait_for(ReplicaLost)
    worker = gang.replicas[0]
    await subject.engine.run(with_replicas(gang, [GangReplica(id=worker.id, node=worker.node, incarnation=1)]))
    await subject.news.wait_for(ReplicaStarted, where=lambda event: event.incarnation == 1)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


async def test_keeper_and_engine_killed_together_leave_nothing_that_the_next_engine_does_not_find(
    subject: LocalSubject,
) -> None:
    gang = await subject.gang(subject.role("worker", Program.SERVE, replicas=2))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaStarted, count=2)
    await subject.close()
    os.kill(record_of(subject.attempt())["keeper_pid"], signal.SIGKILL)
    await subject.restart()
    await subject.news.wait_for(ReplicaLost, count=2)
    assert marked_processes(token_of(subject.attempt())) == []
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


async def test_replicas_of_an_earlier_boot_are_lost(subject: LocalSubject) -> None:
    gang = await subject.gang(subject.role("worker", Program.SERVE))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaStarted)
    await subject.close()
    record = record_of(subject.attempt())
    os.kill(record["keeper_pid"], signal.SIGKILL)
    pid = record["replicas"][0]["pid"]
    os.killpg(pid, signal.SIGKILL)
    # A process of the new boot has the number that a replica had in the old one: it must be left alone.
    stranger = await asyncio.create_subprocess_exec("sleep", "1000")
    record["replicas"][0]["pid"] = stranger.pid
    record["boot"] = "another-boot"
    (subject.attempt() / "state.json").write_text(json.dumps(record))
    await subject.restart()
    (lost,) = await subject.news.wait_for(ReplicaLost)
    assert lost.message == "the machine was restarted"
    assert stranger.returncode is None
    stranger.kill()
    await stranger.wait()
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


@pytest.mark.parametrize("kept", [(), ("order.json",)], ids=["an empty directory", "an order that nobody carried out"])
async def test_a_half_written_attempt_is_finished_when_it_is_wanted(
    subject: LocalSubject, kept: tuple[str, ...]
) -> None:
    gang = await half_written(subject, kept)
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


@pytest.mark.parametrize("kept", [(), ("order.json",)], ids=["an empty directory", "an order that nobody carried out"])
async def test_a_half_written_attempt_is_taken_down_when_it_is_not(
    subject: LocalSubject, kept: tuple[str, ...]
) -> None:
    gang = await half_written(subject, kept)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    assert not subject.news.of(ReplicaStarted)
    await nobody_is_active(subject)
    await subject.engine.forget(gang.id.job_id)
    assert not (subject.root / "jobs/job-1").exists()


async def half_written(subject: LocalSubject, kept: tuple[str, ...]) -> Gang:
    """Leave what an engine leaves that was killed between its first file and its keeper."""
    gang = await subject.gang(subject.role("worker", Program.SUCCEED))
    template = await subject.gang(subject.role("worker", Program.SUCCEED), job_id="job-2")
    await subject.engine.run(template)
    await subject.news.wait_for(ReplicaExited)
    await subject.engine.stop(template.id, 1.0)
    await subject.news.wait_for(GangStopped)
    await subject.close()
    order = (subject.attempt("job-2") / "order.json").read_text().replace("job-2", "job-1")
    order = order.replace(token_of(subject.attempt("job-2")), "feedfacefeedface")
    for folder in ("logs", "metrics", "scratch"):
        (subject.attempt() / folder).mkdir(parents=True)
    for name in ("data", "results", "checkpoints"):
        (subject.root / "jobs/job-1" / name).mkdir()
    (subject.root / "active" / "job-1.1").touch()
    if kept:
        (subject.attempt() / "order.json").write_text(order)
    await subject.restart()
    return gang
