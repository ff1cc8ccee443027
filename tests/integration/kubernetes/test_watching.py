"""Replicas that hang, spin or sleep in pods of a real cluster are found in time, with their line of code."""

import pytest

from gangline.model import Job, Phase, Policy, StallAction
from gangline.model.jobs.spec import StallRule
from gangline.testing.builders import make_role
from tests.integration.kubernetes.subject import SMALL
from tests.integration.kubernetes.world import World
from tools.cluster import PYTHON, python_image
from tools.cluster.pytest_plugin import ClusterUnderTest

PROGRAM = """
import sys, time
from gangline.runtime import report

def hangs():
    time.sleep(600)

def spins():
    while True: pass

def silent():
    time.sleep(600)

def busy():
    while True: sum(range(1000))

def steps():
    for step in range(4, 10000):
        report(step=step, loss=1.0)
        time.sleep(0.2)

if sys.argv[1] in ("hangs", "spins", "steps"):
    for step in range(4):
        report(step=step, loss=1.0)
{each.__name__: each for each in (hangs, spins, silent, busy, steps)}[sys.argv[1]]()
"""
PLACES = {"hangs-0": "<string>:6 hangs", "spins-0": "<string>:9 spins", "silent-0": "<string>:12 silent"}
SECONDS = 20.0


@pytest.fixture(autouse=True)
def image(kubernetes_cluster: ClusterUnderTest) -> None:
    kubernetes_cluster.load(python_image())


def told(job: Job) -> dict[str, str]:
    return {str(each.id): each.message for each in job.replicas if each.message.startswith("stalled")}


async def test_what_stalls_is_found_with_its_line_and_what_is_busy_is_left_alone(world: World) -> None:
    roles = [
        make_role(name, command=("python3", "-c", PROGRAM, name), image=PYTHON, resources=SMALL)
        for name in ("hangs", "spins", "silent", "busy", "steps")
    ]
    policy = Policy(stalled=StallRule(after_seconds=SECONDS), grace_seconds=1.0)
    job_id = await world.submit(*roles, policy=policy)
    await world.phase(job_id, Phase.PROCESSING)
    found = await world.until(
        job_id, lambda job: all(place in told(job).get(replica, "") for replica, place in PLACES.items())
    )
    assert told(found).keys() == PLACES.keys()


async def test_a_gang_that_stalls_is_started_again_where_its_policy_says_so(world: World) -> None:
    role = make_role("hangs", command=("python3", "-c", PROGRAM, "hangs"), image=PYTHON, resources=SMALL)
    rule = StallRule(after_seconds=SECONDS / 2, action=StallAction.RESTART)
    job_id = await world.submit(role, policy=Policy(stalled=rule, grace_seconds=1.0, max_attempts=2))
    job = await world.phase(job_id, Phase.FAILED)
    assert "<string>:6 hangs" in job.message
    assert job.attempt == 2
