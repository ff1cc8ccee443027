"""Real frameworks find their peers by themselves: JAX with two processes, Open MPI with mpirun."""

import sys
import textwrap
from pathlib import Path

import pytest

from gangline import Client
from gangline.model import Framework, JobSpec, Phase, Resources, RoleName, RoleSpec
from tools.debian import require_program

SMALL = Resources(cpu_millis=100, memory_mib=1024)

JAX_PROGRAM = """
import jax, jax.numpy as jnp, os
jax.distributed.initialize(
    os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_NUM_PROCESSES"]), int(os.environ["JAX_PROCESS_ID"])
)
from jax.experimental import multihost_utils
mine = jnp.array([10.0 ** jax.process_index()])
total = multihost_utils.process_allgather(mine).sum()
print(f"process {jax.process_index()} of {jax.process_count()}: sum {float(total):g}", flush=True)
assert float(total) == 11.0
"""

MPI_PROGRAM = """
import os
print(f"rank {os.environ['OMPI_COMM_WORLD_RANK']} of {os.environ['OMPI_COMM_WORLD_SIZE']}", flush=True)
"""


def finished(client: Client, spec: JobSpec) -> str:
    job = client.submit(spec)
    job = client.wait(job.name, phases=[Phase.COMPLETED, Phase.FAILED], timeout=120)
    output = "\n".join(line.text for line in client.logs(job.name))
    assert job.phase is Phase.COMPLETED, f"{job.reason} {job.message}\n{output}"
    return output


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "program.py"


def test_two_jax_processes_add_up_what_each_has(program: Path) -> None:
    program.write_text(textwrap.dedent(JAX_PROGRAM))
    role = RoleSpec(
        name=RoleName("worker"), replicas=2, command=(sys.executable, str(program)), resources=SMALL,
        env={"JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    with Client.embedded() as client:
        output = finished(client, JobSpec(name="jax", roles=(role,), framework=Framework.JAX))
    assert "process 0 of 2: sum 11" in output
    assert "process 1 of 2: sum 11" in output


def test_mpirun_starts_a_rank_on_every_worker_of_the_hostfile(program: Path) -> None:
    mpirun = require_program("mpirun", "openmpi-bin")
    program.write_text(MPI_PROGRAM)
    launcher = RoleSpec(
        name=RoleName("launcher"), resources=SMALL,
        command=(mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable, str(program)),
    )  # fmt: skip
    workers = RoleSpec(name=RoleName("worker"), replicas=2, command=("sleep", "600"), resources=SMALL)
    with Client.embedded() as client:
        output = finished(client, JobSpec(name="mpi", roles=(launcher, workers), framework=Framework.MPI))
    assert "rank 0 of 2" in output
    assert "rank 1 of 2" in output
