"""A gang of a cluster is watched from outside its pods."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gangline.kube import KubeClient
from gangline.model import Job, JobId, Phase, Policy, Resources, StallAction
from gangline.model.jobs.spec import StallRule
from gangline.storage.kubernetes import KubernetesStore
from gangline.testing.builders import make_role
from tests.apiserver import ApiServer
from tests.contract.kubernetes import store_over
from tests.integration.kubernetes.world import World

PROGRAM = """
import sys, time
from gangline.runtime import report

def hang():
    time.sleep(600)

def spin():
    while True: pass

def slow():
    for step in range(4, 1000):
        report(step=step, loss=1.0)
        time.sleep(0.3)

for step in range(4):
    report(step=step, loss=1.0)
    time.sleep(0.05)
{"hang": hang, "spin": spin, "slow": slow}[sys.argv[1]]()
"""
LINES = {"hang": 6, "spin": 9}


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with ApiServer.running() as (_, access), KubeClient(access) as client, store_over(client):
        store = KubernetesStore(client, namespace="default")
        running = World(client, "default", store)
        yield running
        await running.kill()
        await store.close()


async def submit(world: World, program: Path, *words: str, seconds: float, action: StallAction) -> JobId:
    roles = [
        make_role(word, command=(sys.executable, str(program), word), image="any", resources=Resources(cpu_millis=100))
        for word in words
    ]
    policy = Policy(stalled=StallRule(after_seconds=seconds, action=action), grace_seconds=1.0, max_attempts=2)
    return await world.submit(*roles, policy=policy)


def noticed(job: Job) -> dict[str, str]:
    return {str(each.id): each.message for each in job.replicas if each.message.startswith("stalled")}


async def test_replicas_that_hang_and_spin_are_found_with_the_line_and_a_busy_one_is_left_alone(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    async with world() as running:
        job_id = await submit(running, program, "hang", "spin", "slow", seconds=4.0, action=StallAction.TELL)
        wanted = {f"{name}-0": f"train.py:{line} {name}" for name, line in LINES.items()}

        def found(job: Job) -> bool:
            told = noticed(job)
            return all(place in told.get(replica, "") for replica, place in wanted.items())

        await running.until(job_id, found, 60.0)
        await asyncio.sleep(5.0)
        assert "slow-0" not in noticed(await running.store.get(job_id))


async def test_a_gang_that_stalls_is_started_again_where_its_policy_says_so(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    async with world() as running:
        job_id = await submit(running, program, "hang", seconds=3.0, action=StallAction.RESTART)
        job = await running.phase(job_id, Phase.FAILED, 90.0)
        assert "train.py:6 hang" in job.message
        assert job.attempt == 2
