"""What breaks in a real cluster, and how a gang survives it. Recovery times are printed, never asserted."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gangline.kube import NODES, PODS, KubeError
from gangline.model import Job, Phase, PlacementRule, Policy, ReplicaState, Resources, Restart
from tests.integration.kubernetes.world import SERVE, World, eventually, shell
from tools.cluster.build import binaries_folder
from tools.cluster.pytest_plugin import ClusterUnderTest

RUNNING = ReplicaState.RUNNING

pytestmark = [pytest.mark.alone, pytest.mark.parametrize("world", ["kubernetes"], indirect=True)]


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.2f} s")


async def test_a_pod_deleted_by_hand_restarts_the_gang_without_costing_an_attempt(world: World) -> None:
    job_id = await world.submit(shell(SERVE, replicas=2), policy=Policy(grace_seconds=2.0, backoff_seconds=0.1))
    await world.phase(job_id, Phase.PROCESSING)
    victim = (await world.pods())[0]
    with timed("a pod deleted by hand, until the whole gang runs again"):
        await world.client.delete(PODS, victim.metadata.name, namespace=world.namespace)
        job = await world.until(job_id, lambda job: job.attempt == 2 and job.phase is Phase.PROCESSING)
    assert job.failures == 0
    assert "deleted by somebody else" in "".join(entry.message for entry in job.history)
    assert Counter(pod.metadata.labels["gangline.dev/attempt"] for pod in await world.pods()) == {"2": 2}


async def test_a_pod_deleted_by_hand_restarts_its_replica_alone_where_the_job_asks_for_that(world: World) -> None:
    policy = Policy(grace_seconds=2.0, backoff_seconds=0.1, restart=Restart.REPLICA)
    job_id = await world.submit(shell(SERVE, replicas=2), policy=policy)
    await world.phase(job_id, Phase.PROCESSING)
    victim, other = await world.pods()
    await world.client.delete(PODS, victim.metadata.name, namespace=world.namespace)
    job = await world.until(
        job_id, lambda job: job.replica_restarts == 1 and all(each.state is RUNNING for each in job.replicas)
    )
    assert (job.attempt, job.phase, sorted(each.incarnation for each in job.replicas)) == (1, Phase.PROCESSING, [0, 1])
    assert other.metadata.uid in {pod.metadata.uid for pod in await world.pods()}


async def test_an_elastic_role_lives_on_without_the_lost_replica(world: World) -> None:
    job_id = await world.submit(shell(SERVE, "chief"), shell(SERVE, "worker", replicas=2, minimum=1, maximum=2))
    await world.phase(job_id, Phase.PROCESSING)
    victim = next(pod for pod in await world.pods() if pod.metadata.labels["gangline.dev/role"] == "worker")
    await world.client.delete(PODS, victim.metadata.name, namespace=world.namespace)
    # The scheduler gives the place back as soon as it may: a new incarnation in the same attempt.
    job = await world.until(
        job_id, lambda job: job.incarnations == 1 and all(status.started_at for status in job.replicas)
    )
    assert (job.attempt, len(job.replicas)) == (1, 3)


async def test_a_node_is_drained_of_a_job_which_goes_on_elsewhere(
    world: World, kubernetes_cluster: ClusterUnderTest
) -> None:
    policy = Policy(grace_seconds=2.0, backoff_seconds=0.1, restart=Restart.REPLICA)
    job_id = await world.submit(shell(SERVE), policy=policy)
    job = await world.phase(job_id, Phase.PROCESSING)
    node = job.replicas[0].node
    kubectl = [str(binaries_folder() / "kubectl"), f"--kubeconfig={kubernetes_cluster.kubeconfig}"]
    # No --force, which a drain asks for where nobody would replace what it evicts.
    ours = f"--pod-selector=gangline.dev/controller={world.namespace}"
    try:
        process = await asyncio.create_subprocess_exec(
            *kubectl, "drain", node, ours, "--delete-emptydir-data", "--timeout=60s", stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
        assert process.returncode == 0, errors
        job = await world.until(job_id, lambda job: job.attempt == 2 and job.phase is Phase.PROCESSING)
        assert job.replicas[0].node != node
    finally:
        process = await asyncio.create_subprocess_exec(*kubectl, "uncordon", node)
        await process.wait()


async def test_a_worker_out_of_memory_says_so(world: World) -> None:
    hungry = "x=a; while true; do x=$x$x; done"
    job_id = await world.submit(
        shell(hungry, resources=Resources(cpu_millis=50, memory_mib=16)), policy=Policy(grace_seconds=1.0)
    )
    job = await world.phase(job_id, Phase.FAILED)
    assert (job.exit_code, job.reason) == (137, "ReplicaFailed")
    assert "out of memory: it used more than its 16Mi" in job.message


@pytest.mark.parametrize("replicas", [1, 4])
async def test_a_controller_killed_at_any_moment_of_a_launch_neither_loses_nor_doubles_it(
    world: World, replicas: int
) -> None:
    """A sample of moments on the real cluster; every interleaving is walked on the scripted one."""
    with timed("a start of the same gang that nothing disturbs, to compare with"):
        job_id = await world.submit(shell(SERVE, replicas=replicas), name="undisturbed")
        await world.phase(job_id, Phase.PROCESSING)
    await world.delete(job_id)
    for number, pause in enumerate((0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4)):
        job_id = await world.submit(shell(SERVE, replicas=replicas), name=f"job-{number}")
        await asyncio.sleep(pause)
        with timed(f"controller killed {pause:g} s after submission, until all runs"):
            await world.restart()
            job = await world.phase(job_id, Phase.PROCESSING)
        assert (job.attempt, len(job.replicas)) == (1, replicas)
        pods = [pod for pod in await world.pods() if pod.metadata.labels["gangline.dev/job"] == f"job-{number}"]
        assert len(pods) == replicas
        await world.delete(job_id)


async def test_the_api_server_may_go_and_come_back(world: World, kubernetes_cluster: ClusterUnderTest) -> None:
    machines = kubernetes_cluster.require_machines()
    job_id = await world.submit(shell(SERVE, replicas=2))
    await world.phase(job_id, Phase.PROCESSING)
    victim = (await world.pods())[0]
    await asyncio.to_thread(machines.restart, "kube-apiserver", signal.SIGKILL)
    await asyncio.to_thread(machines.wait_ready)
    with timed("API server back, until the gang runs again after a pod was deleted"):
        with timed("API server back, until the deletion of a pod is answered"):
            await _delete_insistently(world, victim.metadata.name)
            await world.until(job_id, lambda job: job.phase is not Phase.PROCESSING or job.attempt == 2)
        await world.until(job_id, lambda job: job.attempt == 2 and job.phase is Phase.PROCESSING)


async def test_etcd_may_go_and_come_back(world: World, kubernetes_cluster: ClusterUnderTest) -> None:
    machines = kubernetes_cluster.require_machines()
    job_id = await world.submit(shell(SERVE, replicas=2))
    await world.phase(job_id, Phase.PROCESSING)
    await asyncio.to_thread(machines.restart, "etcd", signal.SIGKILL)
    await asyncio.to_thread(machines.wait_ready)
    other = await world.submit(shell("exit 0"), name="afterwards")
    await world.phase(other, Phase.COMPLETED)
    assert (await world.store.get(job_id)).attempt == 1


async def test_a_lost_node_moves_the_gang_to_healthy_ones(world: World, kubernetes_cluster: ClusterUnderTest) -> None:
    machines = kubernetes_cluster.require_machines()
    job_id = await world.submit(shell(SERVE, replicas=2))
    job = await world.phase(job_id, Phase.PROCESSING)
    node = job.replicas[0].node
    machines.stop(f"kubelet-{node}")
    try:
        await _until_lost(world, node)
        with timed("node reported lost, until the gang runs elsewhere"):
            job = await world.until(job_id, lambda job: job.attempt == 2 and job.phase is Phase.PROCESSING)
        assert node not in {status.node for status in job.replicas}
        assert job.failures == 0
    finally:
        machines.start(f"kubelet-{node}")
        await asyncio.to_thread(machines.wait_ready)


async def test_an_elastic_gang_goes_on_without_a_lost_node(world: World, kubernetes_cluster: ClusterUnderTest) -> None:
    machines = kubernetes_cluster.require_machines()
    job_id = await world.submit(shell(SERVE, replicas=3, minimum=1, maximum=3), placement=PlacementRule(apart="node"))
    job = await world.until(job_id, lambda job: _running(job) == 3)
    node = job.replicas[-1].node
    staying = {pod.metadata.uid for pod in await world.pods() if pod.spec.node_name != node}
    machines.stop(f"kubelet-{node}")
    try:
        await _until_lost(world, node)
        with timed("node reported lost, until an elastic gang has let go of it"):
            job = await world.until(job_id, lambda job: node not in {status.node for status in job.replicas})
        assert (job.phase, job.attempt, job.failures, _running(job)) == (Phase.PROCESSING, 1, 0, 2)
    finally:
        machines.start(f"kubelet-{node}")
        await asyncio.to_thread(machines.wait_ready)
    job = await world.until(job_id, lambda job: _running(job) == 3)
    assert job.attempt == 1, "it grew back into the node that returned"
    assert staying <= {pod.metadata.uid for pod in await world.pods()}, "the others never stopped"


def _running(job: Job) -> int:
    return sum(status.state is ReplicaState.RUNNING for status in job.replicas)


async def _until_lost(world: World, node: str) -> None:
    async def lost() -> bool:
        return world.engine.view.is_node_lost(node)

    await eventually(lost)
    assert (await world.client.get(NODES, node)).metadata.name == node


async def _delete_insistently(world: World, name: str) -> None:
    async def deleted() -> bool:
        try:
            await world.client.delete(PODS, name, namespace=world.namespace)
        except KubeError:
            return False
        return True

    await eventually(deleted)
