"""The controller killed during every single write of a job's life, before and after the write took effect."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from gangline.controller import Controller
from gangline.engines.kubernetes import KubernetesEngine
from gangline.errors import NotFoundError
from gangline.lifecycle import advance
from gangline.lifecycle.events import CancelRequested, DeleteRequested, GangPlaced, HaltRequested
from gangline.model import Framework, Job, JobId, NodeName, Phase, Policy, ReplicaId, RoleSpec
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import FakeClock, make_job, make_role
from tests.engines.kubernetes.fake_cluster import FakeCluster, KilledError

JOB = JobId("job-1")
ROLES = (make_role("chief", image="busybox"), make_role("worker", image="busybox", replicas=3))
MPI_ROLES = (make_role("launcher", image="busybox"), ROLES[1])


class Life:
    """One controller on a cluster and a store that outlive it."""

    def __init__(self, cluster: FakeCluster, store: MemoryStore) -> None:
        self.cluster = cluster
        self.store = store
        self.clock = FakeClock()
        self.engine = KubernetesEngine(cluster, clock=self.clock)
        self.controller = Controller(store=store, engine=self.engine, clock=self.clock)

    async def live(self, condition: Callable[[Job | None], bool]) -> bool:
        """Work until the record looks as the condition says (True) or the controller is killed (False)."""
        running = asyncio.create_task(self.controller.run())
        try:
            async with asyncio.timeout(60):
                while not condition(await self.job()):
                    if self.cluster.dead:
                        return False
                    await asyncio.sleep(0)
            return not self.cluster.dead
        finally:
            # Again and again: a task that is just being woken may miss one cancellation.
            while not running.done():
                running.cancel()
                await asyncio.wait({running}, timeout=0.1)
            await self.engine.close()

    async def job(self) -> Job | None:
        try:
            return await self.store.get(JOB)
        except NotFoundError:
            return None


def processing(job: Job | None) -> bool:
    return job is not None and job.phase is Phase.PROCESSING


def halted(job: Job | None) -> bool:
    return job is not None and job.phase is Phase.HALTED


def removed(job: Job | None) -> bool:
    return job is None


async def new_world(
    roles: tuple[RoleSpec, ...] = ROLES, framework: Framework = Framework.NONE
) -> tuple[FakeCluster, MemoryStore]:
    store = MemoryStore()
    await store.create(make_job(roles=roles, framework=framework, policy=Policy(grace_seconds=1.0)))
    return FakeCluster(), store


def deaths() -> list[pytest.param]:
    return [pytest.param(effect, id="after its effect" if effect else "before its effect") for effect in (False, True)]


@pytest.mark.parametrize("after_effect", deaths())
@pytest.mark.parametrize(
    ("roles", "framework"),
    [(ROLES, Framework.NONE), (MPI_ROLES, Framework.MPI), (ROLES[:1], Framework.NONE)],
    ids=["together", "launcher last", "placed before it is on record"],
)
async def test_killed_during_any_write_of_a_launch_the_gang_runs_once(
    roles: tuple[RoleSpec, ...], framework: Framework, after_effect: bool
) -> None:
    for write in itertools.count(1):
        cluster, store = await new_world(roles, framework)
        cluster.die_at, cluster.die_after_effect = write, after_effect
        finished = await Life(cluster, store).live(processing)
        cluster.revive()
        assert await Life(cluster, store).live(processing)
        job = await store.get(JOB)
        assert (job.attempt, job.failures) == (1, 0)
        assert Counter(cluster.created).most_common(1)[0][1] == 1
        assert len(cluster.pods()) == sum(role.replicas for role in roles)
        if finished:
            assert write > 1 + len(cluster.pods()), "a launch takes a policy, for several a service, and the pods"
            return


@pytest.mark.parametrize(
    ("request_kind", "phase"), [(HaltRequested, Phase.HALTED), (CancelRequested, Phase.CANCELLED)], ids=str
)
async def test_a_gang_that_nobody_recorded_is_stopped_if_its_user_changed_his_mind(
    request_kind: type[HaltRequested], phase: Phase
) -> None:
    cluster, store = await new_world(ROLES[:1])
    # The policy is the first write of a launch and the pod the second; the record would be saved after its start.
    cluster.die_at, cluster.die_after_effect = 2, True
    assert not await Life(cluster, store).live(processing)
    assert len(cluster.pods()) == 1
    job = await store.get(JOB)
    assert (job.phase, job.attempt) == (Phase.QUEUED, 0)
    await store.save(advance(job, request_kind(job_id=JOB, at=job.created_at)).job)
    cluster.revive()
    assert await Life(cluster, store).live(lambda job: job is not None and job.attempt == 1 and not job.holding)
    assert (await store.get(JOB)).phase is phase
    assert cluster.pods() == {}


async def test_a_pod_that_another_life_created_elsewhere_is_replaced() -> None:
    cluster, store = await new_world(ROLES[:1])
    life = Life(cluster, store)
    job = await store.get(JOB)
    replica = ReplicaId(ROLES[0].name, 0)
    placed = advance(job, GangPlaced(job_id=JOB, at=job.created_at, placement={replica: NodeName("node-1")})).job
    await life.engine.run(placed.gang())
    await life.engine.close()
    elsewhere = advance(job, GangPlaced(job_id=JOB, at=job.created_at, placement={replica: NodeName("node-0")})).job
    await store.save(elsewhere)
    again = Life(cluster, store)

    def there(job: Job | None) -> bool:
        return {pod["spec"]["nodeName"] for pod in cluster.pods().values()} == {"node-0"}

    assert await again.live(there)


@pytest.mark.parametrize("after_effect", deaths())
@pytest.mark.parametrize(
    ("request_kind", "done"), [(HaltRequested, halted), (DeleteRequested, removed)], ids=["halt", "delete"]
)
async def test_killed_during_any_write_of_an_end_nothing_is_left(
    request_kind: type[HaltRequested], done: Callable[[Job | None], bool], after_effect: bool
) -> None:
    for write in itertools.count(1):
        cluster, store = await new_world()
        assert await Life(cluster, store).live(processing)
        cluster.die_at, cluster.die_after_effect = cluster.writes + write, after_effect
        life = Life(cluster, store)
        life.controller.hear(request_kind(job_id=JOB, at=life.clock.now()))
        finished = await life.live(done)
        cluster.revive()
        again = Life(cluster, store)
        if not finished and await again.job() is not None:
            again.controller.hear(request_kind(job_id=JOB, at=again.clock.now()))
        assert await again.live(done)
        assert cluster.pods() == {}
        assert cluster.names("services") == []
        assert cluster.names("networkpolicies") == []
        if finished:
            return


def test_a_kill_cannot_be_caught_by_accident() -> None:
    assert not issubclass(KilledError, Exception)
