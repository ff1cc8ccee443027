"""When a place on a real node is free again: kubelets refuse whoever comes before they are done with the pod before.

The places are a resource that one node has and nobody else asks for, so nothing here depends on who shares the cluster.
"""

import time
from collections.abc import AsyncIterator

import pytest

from gangline.kube import NODES, KubeClient
from gangline.lifecycle.events import CancelRequested, GangPlaced
from gangline.model import JobId, NodeName, Phase, Policy, ReplicaId, Resources, RoleName
from gangline.scheduling import Constraint
from tests.integration.kubernetes.subject import SMALL
from tests.integration.kubernetes.world import OBEDIENT, World, eventually, shell

pytestmark = pytest.mark.parametrize("world", ["kubernetes"], indirect=True)

PLACES = 2
SLOW = "trap 'sleep 3; exit 143' TERM; sleep 1000 & wait"
"""Takes its time to end."""


@pytest.fixture
async def place(world: World) -> AsyncIterator[Resources]:
    """What a replica asks for that takes one of two places, both on one node."""
    name = f"example.com/{world.namespace}"
    node = next(each.name for each in await world.engine.nodes() if each.ready and not each.taints)
    await _offer(world.client, node, name, str(PLACES))

    async def is_known() -> bool:
        return any(each.capacity.extended.get(name) == PLACES for each in await world.engine.nodes())

    await eventually(is_known)
    yield Resources(cpu_millis=SMALL.cpu_millis, memory_mib=SMALL.memory_mib, extended={name: 1})
    await _offer(world.client, node, name, None)


async def _offer(client: KubeClient, node: NodeName, name: str, amount: str | None) -> None:
    status = {"status": {"capacity": {name: amount}, "allocatable": {name: amount}}}
    await client.patch(NODES, node, status, subresource="status")


def double(place: Resources) -> Resources:
    """Both places of the node for one replica."""
    return Resources(cpu_millis=50, memory_mib=32, extended=dict.fromkeys(place.extended, PLACES))


async def test_jobs_that_follow_one_another_on_a_full_node_are_each_started_once(
    world: World, place: Resources
) -> None:
    began = time.monotonic()
    jobs = [await world.submit(shell("sleep 1", resources=double(place)), name=f"job-{i}") for i in range(4)]
    done = [await world.phase(job_id, Phase.COMPLETED) for job_id in jobs]
    print(f"four jobs of a second, one after another: {time.monotonic() - began:.1f} s")
    assert [(job.attempt, job.failures) for job in done] == [(1, 0)] * 4


async def test_a_gang_that_shrinks_for_another_neither_grows_back_nor_is_stopped(
    world: World, place: Resources
) -> None:
    elastic = shell(SLOW, resources=place, replicas=PLACES, minimum=1, maximum=PLACES)
    policy = Policy(grace_seconds=10.0)
    large = await world.submit(elastic, name="elastic", priority=10, policy=policy)
    await world.until(large, lambda job: len(job.replicas) == PLACES and job.phase is Phase.PROCESSING)
    began = time.monotonic()
    urgent = await world.submit(shell(OBEDIENT, resources=place), name="urgent", priority=90)

    async def is_explained() -> bool:
        why = world.controller.explanation(urgent)
        return why is not None and (why.constraint, why.holders) == (Constraint.TERMINATING, (large,))

    await eventually(is_explained)
    job = await world.phase(urgent, Phase.PROCESSING)
    print(
        f"until the urgent job runs in the place of a replica that takes 3 s to end: {time.monotonic() - began:.1f} s"
    )
    assert job.attempt == 1
    left = await world.store.get(large)
    assert (left.attempt, left.phase, len(left.replicas)) == (1, Phase.PROCESSING, 1)


async def test_a_pod_that_comes_too_early_is_tried_again_in_its_place(world: World, place: Resources) -> None:
    """It is placed by hand where another still runs: as if the kubelet took longer than the API server shows."""
    first = await world.submit(shell(SLOW, resources=double(place)), name="first", policy=Policy(grace_seconds=10.0))
    await world.phase(first, Phase.PROCESSING)
    second = await world.submit(shell(OBEDIENT, resources=double(place)), name="second")
    (node,) = {status.node for status in (await world.store.get(first)).replicas}
    placement = {ReplicaId(RoleName("worker"), 0): node}
    world.controller.hear(GangPlaced(job_id=JobId(second), at=world.clock.now(), placement=placement))

    async def is_refused() -> bool:
        return any(pod.status.reason.startswith("OutOf") for pod in await world.pods())

    await eventually(is_refused)
    await world.ask(CancelRequested, first)
    job = await world.phase(second, Phase.PROCESSING)
    assert (job.attempt, job.failures) == (1, 0)
