"""What the engine sees of replicas that hang, spin or sleep, and where it says they are."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.engines.local.watch.watching import innermost
from gangline.lifecycle.events import ReplicaStarted
from gangline.model import Gang, Metric, Policy, ReplicaId, Resources, RoleName
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import eventually, place
from tests.engines.local.machinery import LocalSubject

WORKER = ReplicaId(RoleName("worker"), 0)
HANGS = """
import time
from gangline.runtime import report

def wait_for_ever():
    time.sleep(600)

report(step=1, loss=1.0)
wait_for_ever()
"""
SPINS = HANGS.replace("time.sleep(600)", "while True: pass")


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[LocalSubject]:
    async with LocalSubject.over(tmp_path) as subject:
        yield subject


async def started(subject: LocalSubject, *command: str) -> Gang:
    role = make_role(command=command, resources=Resources(cpu_millis=100))
    gang = place(make_spec(roles=(role,), policy=Policy(grace_seconds=0.1)), await subject.node())
    await subject.engine.run(gang)
    return gang


@pytest.mark.parametrize("program", [HANGS, SPINS], ids=["hangs", "spins"])
async def test_the_line_where_a_program_is_is_told_and_its_stack_kept(subject: LocalSubject, program: str) -> None:
    gang = await started(subject, sys.executable, "-c", program)
    await subject.news.wait_for(Metric)  # it has imported the runtime, and has nothing to do but to wait
    places: dict[ReplicaId, str] = {}

    async def waits() -> bool:
        places.update(await subject.engine.keep_stacks(gang.id))
        return "wait_for_ever" in places[WORKER]

    await eventually(waits)
    assert places == {WORKER: "<string>:6 wait_for_ever"}
    kept = subject.root / "jobs/job-1/results/stacks/1/worker-0.txt"
    assert "line 9 in <module>" in kept.read_text()


async def test_a_program_without_the_runtime_is_not_ended_by_the_question(
    subject: LocalSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    gang = await started(subject, "sleep", "600")
    await subject.news.wait_for(ReplicaStarted)
    assert await subject.engine.keep_stacks(gang.id) == {WORKER: ""}
    assert (await subject.engine.pulses(gang.id)).keys() == {WORKER}
    assert "no process could be asked" in (subject.root / "jobs/job-1/results/stacks/1/worker-0.txt").read_text()


async def test_processor_time_and_the_last_line_are_seen(subject: LocalSubject) -> None:
    gang = await started(subject, "sh", "-c", "echo begun; while :; do :; done")

    async def is_seen() -> bool:
        pulse = (await subject.engine.pulses(gang.id)).get(WORKER)
        return pulse is not None and pulse.cpu_seconds > 0.05 and pulse.output_at is not None

    await eventually(is_seen)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (('Thread 0x1 (most recent call first):\n  File "/a/b.py", line 3 in other\n\n'
         'Current thread 0x2 (most recent call first):\n  File "/a/c.py", line 5 in train\n'), "c.py:5 train"),
        ("Thread 1 (idle): \"MainThread\"\n    step (train.py:12)\n    <module> (train.py:20)\n", "train.py:12 step"),
        ("", ""),
    ],
    ids=["faulthandler", "py-spy", "nothing"],
)  # fmt: skip
def test_the_innermost_call_of_the_thread_that_was_asked_is_where_a_program_is(text: str, want: str) -> None:
    assert innermost(text) == want
