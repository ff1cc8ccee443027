"""Both versions of MPIJob start ranks with a real ``mpirun``, unchanged from what a cluster runs."""

import pytest

from gangline.dialects import read_plain
from gangline.model import Phase
from tests.integration.kubeflow.conftest import LocalService
from tools.debian import require_program

SCRIPT = 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"'


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_mpirun_finds_every_slot_of_every_worker(service: LocalService, version: str) -> None:
    mpirun = require_program("mpirun", "openmpi-bin")
    words = [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "4", "sh", "-c", SCRIPT]
    launcher = {"name": "mpi", "image": "any", "command": words}
    # What the workers of most files run: a server for the launcher's logins, which one machine does not need.
    worker = {"name": "mpi", "image": "any", "command": ["/usr/sbin/sshd", "-De"]}
    document = {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": f"mpi-{version}"},
        "spec": {
            "slotsPerWorker": 2,
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": {"spec": {"containers": [launcher]}}},
                "Worker": {"replicas": 2, "template": {"spec": {"containers": [worker]}}},
            },
        },
    }
    (translation,) = read_plain(document)
    job = service.client.submit(translation.spec)
    ended = service.client.wait(job.id, phases=[Phase.COMPLETED, Phase.FAILED], timeout=120)
    lines = [line.text for line in service.client.logs(job.id, role="launcher")]
    assert ended.phase is Phase.COMPLETED, lines
    # mpirun may warn on its own account (on standard error) that a daemon was quicker than itself.
    assert sorted(line for line in lines if line.startswith("rank")) == [f"rank {rank} of 4" for rank in range(4)]
