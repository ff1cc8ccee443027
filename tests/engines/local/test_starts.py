"""How the replicas of a gang start: together, or as soon as those that can."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.engines.interface import LogQuery
from gangline.lifecycle.events import GangStopped, ReplicaExited, ReplicaLost, ReplicaStarted
from gangline.model import JobId
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import eventually, place
from tests.engines.local.machinery import LocalSubject, groups_of, marked_processes, record_of

# A keeper's own process: launching forks it, which a process with the threads of a test runner should not do.
LAUNCH = """
import json, os, signal, sys, time
from gangline.engines.local.keeper import launch
from gangline.engines.local.keeper.system import processes
from types import SimpleNamespace

home, count = sys.argv[1], int(sys.argv[2])

def order(number):
    return SimpleNamespace(
        name=f"worker-{number}", incarnation=0, started=False, command=["sleep", "1000"],
        environment={"PATH": os.environ["PATH"]}, cpus=[], memory_mib=0, address="", directory=None,
    )

def states(wanted):
    deadline = time.monotonic() + 60
    while True:
        found = {open(f"/proc/{each.pid}/stat").read().rpartition(")")[2].split()[0] == "T" for each in launches}
        if found == wanted or time.monotonic() > deadline:
            return sorted(found)
        time.sleep(0.01)

processes.adopt_orphans()
launches = [launch.Launch(order(number), f"{home}/worker-{number}", None) for number in range(count)]
launch.complete(launches, launch.begin(launches, None))
try:
    held = states({count > 1})
    policies = sorted({os.sched_getscheduler(each.pid) for each in launches})
    launch.release(launches)
    print(json.dumps({"held": held, "held after release": states({False}), "policies": policies}))
finally:
    for each in launches:
        os.kill(each.pid, signal.SIGKILL)
"""
PROMPT = """
import os
from gangline.engines.local.keeper.system import processes
processes.run_promptly()
if os.fork():
    os.wait()
    print(bool(os.sched_getscheduler(0) & os.SCHED_RESET_ON_FORK))
else:
    print(os.sched_getscheduler(0) == os.SCHED_OTHER, flush=True)
    os._exit(0)
"""


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[LocalSubject]:
    async with LocalSubject.over(tmp_path) as subject:
        yield subject


def token_of(subject: LocalSubject) -> str:
    return json.loads((subject.attempt() / "order.json").read_text())["token"]


def output_of(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(("count", "want_held"), [(1, [False]), (5, [True])], ids=["one alone", "several"])
def test_several_programs_are_held_until_all_are_there(tmp_path: Path, count: int, want_held: list[bool]) -> None:
    found = json.loads(output_of(LAUNCH, str(tmp_path), str(count)))
    assert found == {"held": want_held, "held after release": [False], "policies": [os.SCHED_OTHER]}


@pytest.mark.skipif(os.uname().machine not in {"x86_64", "aarch64"}, reason="the kernel is asked on these two only")
def test_short_turns_are_not_passed_on_to_children() -> None:
    assert output_of(PROMPT).split() == ["True", "True"]


async def test_replicas_run_though_another_of_the_gang_cannot_be_started(subject: LocalSubject) -> None:
    able = make_role("worker", replicas=3, command=("sh", "-c", "echo up"))
    unable = make_role("chief", command=("./missing.sh",))
    gang = place(make_spec(roles=(able, unable)), await subject.node())
    await subject.engine.run(gang)
    exits = await subject.news.wait_for(ReplicaExited, count=4)
    assert sorted(event.exit_code for event in exits) == [0, 0, 0, 127]
    lines = [line.text async for line in subject.engine.logs(LogQuery(job_id=JobId("job-1")))]
    assert lines == ["up"] * 3
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


@pytest.mark.parametrize("moment", range(8))
async def test_a_keeper_killed_at_any_moment_of_a_start_leaves_nothing(subject: LocalSubject, moment: int) -> None:
    role = make_role(replicas=6, command=("sh", "-c", 'echo ran >> "$RESULT_DIR/$GANGLINE_INDEX"; exec sleep 1000'))
    gang = place(make_spec(roles=(role,)), await subject.node())
    await subject.engine.run(gang)

    async def starts_are_recorded() -> bool:
        return bool(record_of(subject.attempt()).get("replicas"))

    await eventually(starts_are_recorded)
    await asyncio.sleep(moment * 0.003)
    os.kill(record_of(subject.attempt())["keeper_pid"], signal.SIGKILL)
    await subject.news.wait_for(ReplicaLost, count=6)
    assert marked_processes(token_of(subject)) == []
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    # Whoever was killed between opening its file and writing to it has left it empty.
    runs = {path.read_text() for path in (subject.root / "jobs/job-1/results").iterdir()}
    assert runs <= {"", "ran\n"}
    assert groups_of(subject.attempt()) == []


async def test_programs_that_are_held_when_their_keeper_dies_are_ended(subject: LocalSubject) -> None:
    role = make_role(replicas=3, command=("sleep", "1000"))
    gang = place(make_spec(roles=(role,)), await subject.node())
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaStarted, count=3)
    record = record_of(subject.attempt())

    async def all_run() -> bool:
        return len(marked_processes(token_of(subject))) == 3

    await eventually(all_run)
    for replica in record["replicas"]:
        os.killpg(replica["pid"], signal.SIGSTOP)
    os.kill(record["keeper_pid"], signal.SIGKILL)
    await subject.news.wait_for(ReplicaLost, count=3)
    assert marked_processes(token_of(subject)) == []
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
