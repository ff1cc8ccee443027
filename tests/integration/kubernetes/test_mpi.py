"""A real ``mpirun`` over several nodes, in an image without sshd and in pods without any token of the cluster."""

import re

import pytest

from gangline.engines.interface import LogQuery
from gangline.kube import SECRETS
from gangline.model import Framework, Phase, Resources, RoleSpec
from gangline.testing.builders import make_role
from tests.integration.kubernetes.mpi_image import mpi_image
from tests.integration.kubernetes.world import World
from tools.cluster.pytest_plugin import ClusterUnderTest

pytestmark = pytest.mark.parametrize("world", ["kubernetes"], indirect=True)

SMALL = Resources(cpu_millis=50, memory_mib=256)
RANK = 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"'


@pytest.fixture(scope="module")
def image(kubernetes_cluster: ClusterUnderTest) -> str:
    described = mpi_image()
    kubernetes_cluster.load(described)
    return described.name


def roles(image: str, *words: str) -> tuple[RoleSpec, ...]:
    launcher = make_role("launcher", command=("mpirun", "--oversubscribe", *words), image=image, resources=SMALL)
    worker = make_role("worker", command=("sleep", "infinity"), image=image, resources=SMALL, replicas=3)
    return launcher, worker


async def test_ranks_run_in_every_worker(world: World, image: str) -> None:
    job_id = await world.submit(*roles(image, "-np", "6", "sh", "-c", RANK), name="ranks", framework=Framework.MPI,
                                processes=2)  # fmt: skip
    await world.until(job_id, lambda job: job.finished)
    job = await world.until(job_id, lambda job: not job.holding)
    lines = [line.text async for line in world.engine.logs(LogQuery(job_id=job_id))]
    assert (job.phase, job.attempt, job.failures) == (Phase.COMPLETED, 1, 0), lines
    found = sorted(match.groups() for line in lines if (match := re.match(r"rank (\d) of 6 on (\S+)", line)))
    assert found == [(str(rank), f"worker-{rank // 2}") for rank in range(6)]
    assert [
        item.metadata.name for item in (await world.client.list(SECRETS, namespace=world.namespace)).items or ()
    ] == []


async def test_a_rank_that_fails_fails_the_job_with_its_code(world: World, image: str) -> None:
    job_id = await world.submit(*roles(image, "-np", "3", "sh", "-c", "exit 7"), name="fails", framework=Framework.MPI)
    job = await world.phase(job_id, Phase.FAILED)
    assert job.exit_code == 7
