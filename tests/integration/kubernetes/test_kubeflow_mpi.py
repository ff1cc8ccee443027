"""Both versions of MPIJob start ranks with a real ``mpirun`` in the workers' pods: by ssh, and without any server."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes import names
from gangline.kube import SECRETS, GenericObject, Resource
from gangline.model import JobId
from tests.integration.kubernetes.kubeflow import Play
from tests.integration.kubernetes.mpi_image import mpi_image
from tests.integration.kubernetes.world import World
from tools.cluster.images import Entry, Image
from tools.cluster.pytest_plugin import ClusterUnderTest
from tools.debian import require_program

Plain = dict[str, Any]
RANK = 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"'
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4", "sh", "-c", RANK]
# One quick key instead of one of each kind: mpirun's ssh waits ten seconds for a server, and no longer.
HOST_KEY = "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key"
SERVER = f"mkdir -p /run/sshd && {HOST_KEY} && exec /usr/sbin/sshd -De -f /etc/ssh/sshd_config"
NO_DNS: Plain = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}
"""For launchers: a name server that nobody runs, since they know their workers without one."""
_FILES = {
    "etc/ssh/sshd_config": "StrictModes no\nPermitRootLogin yes\nUsePAM no\nPrintMotd no\n",
    "etc/ssh/ssh_config": "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nsshd:x:101:101::/run/sshd:/bin/false\n",
    "etc/group": "root:x:0:\nsshd:x:101:\n",
}


@pytest.fixture(scope="module")
def image(kubernetes_cluster: ClusterUnderTest) -> str:
    described = image_with_ssh()
    kubernetes_cluster.load(described)
    return described.name


def image_with_ssh() -> Image:
    """Open MPI with a server for logins, as the images of ``v2beta1`` have it."""
    require_program("/usr/sbin/sshd", "openssh-server")
    below = mpi_image()
    layer = {path: Entry(text=text) for path, text in _FILES.items()}
    layer |= {str(file).lstrip("/"): Entry(source=file.resolve(), mode=0o755) for file in _ssh_files()}
    layer["root"] = Entry(mode=0o700)
    return replace(below, name="gangline.local/openmpi-ssh:1", layers=[*below.layers, layer], user="0:0")


def _ssh_files() -> Iterator[Path]:
    listing = subprocess.run(
        ["dpkg", "-L", "openssh-server", "openssh-client"], capture_output=True, text=True, check=True
    ).stdout
    programs = [Path(line) for line in listing.splitlines() if re.match(r"/usr/(s?bin|lib/openssh)/", line)]
    programs = [file for file in programs if file.is_file()]
    yield from programs
    needed = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    yield from (Path(path) for path in sorted(set(re.findall(r"=> (/\S+) \(", needed))))


def specs(image: str, worker: list[str], launcher: list[str] = MPIRUN) -> Plain:
    def replica(command: list[str], count: int, **fields: Any) -> Plain:
        container = {"name": "mpi", "image": image, "command": command}
        pod = {"terminationGracePeriodSeconds": 1, "containers": [container], **fields}
        return {"replicas": count, "template": {"spec": pod}}

    return {"Launcher": replica(launcher, 1, **NO_DNS), "Worker": replica(worker, 2)}


async def ranks(world: World, play: Play) -> list[tuple[str, ...]]:
    await play.done("Succeeded")
    lines = [line.text async for line in world.engine.logs(LogQuery(job_id=JobId(play.uid)))]
    job = await play.job()
    assert (job.attempt, job.failures) == (1, 0), lines
    return sorted(match.groups() for line in lines if (match := re.match(r"rank (\d) of 4 on (\S+)", line)))


WANT = [(str(rank), f"pi-worker-{rank // 2}") for rank in range(4)]


async def test_the_first_version_needs_no_server_in_the_image(kubeflow: World, image: str) -> None:
    play = await Play.begin(kubeflow, "MPIJob", "pi", specs(image, ["sleep", "infinity"]), slotsPerWorker=2)
    assert await ranks(kubeflow, play) == WANT


async def begin_second(world: World, replicas: Plain, **spec: object) -> Play:
    """Apply a job of the second version."""
    second = Resource(group="kubeflow.org", version="v2beta1", plural="mpijobs", kind="MPIJob", type=GenericObject)
    body = {"metadata": {"name": "pi"}, "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": replicas, **spec}}
    item = await world.client.create(second, body, namespace=world.namespace)
    assert item.spec["sshAuthMountPath"] == "/root/.ssh", "the mark by which the version is known"
    play = Play(world, "MPIJob", "pi")
    play.uid = item.metadata.uid
    return play


async def test_the_second_version_logs_in_by_ssh_with_a_key_of_its_own(kubeflow: World, image: str) -> None:
    play = await begin_second(kubeflow, specs(image, ["sh", "-c", SERVER]))
    assert await ranks(kubeflow, play) == WANT
    name = f"{names.job_name('pi', JobId(play.uid))}-ssh"
    secret = await kubeflow.client.get(SECRETS, name, namespace=kubeflow.namespace)
    assert secret.metadata.owner_references[0].uid == play.uid


async def test_a_launcher_that_takes_ranks_is_found_by_name_by_itself_and_by_its_workers(
    kubeflow: World, image: str
) -> None:
    look = "import socket; socket.gethostbyname('pi-launcher')"
    program = f'until python3 -c "{look}" 2>/dev/null; do sleep 0.2; done; {RANK}'
    launcher = [*MPIRUN[:-1], program]
    play = await begin_second(kubeflow, specs(image, ["sh", "-c", SERVER], launcher), runLauncherAsWorker=True)
    want = [("0", "pi-launcher"), ("1", "pi-launcher"), ("2", "pi-worker-0"), ("3", "pi-worker-0")]
    assert await ranks(kubeflow, play) == want
