"""The same Kubeflow files on the real cluster: real frameworks on several nodes, MNIST to the same accuracy.

There is no registry to pull from, so each file is given an image that the nodes have (Python, Open MPI, an ssh server)
and a read-only volume with the frameworks' packages. Everything else is as it stands in examples/kubeflow.
"""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangline.engines.kubernetes import install
from gangline.kube import PODS, VOLUME_CLAIMS, GenericObject, KubeClient, Resource, load_access
from gangline.storage.kubernetes import DEFINITIONS, KubernetesStore, kubeflow_definitions
from tests.frameworks.conftest import EXAMPLES, accuracies, paddle_python
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.libraries import system_libraries
from tests.integration.kubernetes.test_kubeflow_mpi import image_with_ssh
from tests.integration.kubernetes.world import World
from tools.cluster.images import Entry
from tools.cluster.pytest_plugin import ClusterUnderTest
from tools.frameworks import frameworks_python

pytestmark = [pytest.mark.frameworks, pytest.mark.kubernetes]

TARGET = 0.95
VOLUMES = Resource(plural="persistentvolumes", kind="PersistentVolume", type=GenericObject, namespaced=False)
PATIENCE_SECONDS = 900
TIMED_OUT = 124
PACKAGES_AT = "/opt/frameworks"


@pytest.fixture(scope="module")
def image(kubernetes_cluster: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the published images have in common: Python, Open MPI, an ssh server with its key, system libraries."""
    folder = tmp_path_factory.mktemp("image")
    key = folder / "ssh_host_ed25519_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (folder / "frameworks.pth").write_text(f"{PACKAGES_AT}\n")
    below = image_with_ssh()
    layer = system_libraries(below)
    layer |= {f"etc/ssh/{key.name}": Entry(source=key, mode=0o600), "run/sshd": Entry(mode=0o755)}
    site = f"usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    layer[f"{site}/frameworks.pth"] = Entry(source=folder / "frameworks.pth")
    described = replace(below, name="gangline.local/frameworks:1", layers=[*below.layers, layer])
    kubernetes_cluster.load(described)
    return described.name


@pytest.fixture
async def world(kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str) -> AsyncIterator[World]:
    async with KubeClient(load_access(path=kubernetes_cluster.kubeconfig)) as client:
        await install(client, [*DEFINITIONS, *kubeflow_definitions()], print)
        store = KubernetesStore(client, namespace=kubernetes_namespace)
        world = World(client, kubernetes_namespace, store)
        yield world
        await world.kill()
        await store.close()
        await release_jobs(client, kubernetes_namespace)


@pytest.fixture
async def claims(world: World, mnist: Path, tmp_path: Path) -> AsyncIterator[None]:
    """The claim that the files name, filled as docs/kubeflow.md says, and those with the frameworks' packages."""
    places = {
        "mnist": await asyncio.to_thread(fill, tmp_path / "claim", mnist),
        "frameworks": packages_of(frameworks_python()),
        "paddle": packages_of(await asyncio.to_thread(paddle_python)),
    }
    for name, place in places.items():
        shape = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeMode": "Filesystem"}
        own = f"{world.namespace}-{name}"
        volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(place)}, **shape}
        await world.client.create(VOLUMES, {"metadata": {"name": own}, "spec": volume})
        claim = {"volumeName": own, "resources": {"requests": {"storage": "1Gi"}}, **shape}
        await world.client.create(VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": claim}, namespace=world.namespace)
    yield
    for name in places:
        await world.client.delete(VOLUMES, f"{world.namespace}-{name}")


def packages_of(python: Path) -> Path:
    return next((python.parents[1] / "lib").glob("python*/site-packages"))


def fill(claim: Path, mnist: Path) -> Path:
    shutil.copytree(EXAMPLES / "kubeflow", claim)
    for file in mnist.glob("*.gz"):
        shutil.copy(file, claim)
    claim.chmod(0o777)
    return claim


def on_these_nodes(file: Path, image: str, packages: str) -> dict[str, Any]:
    """The file with an image that is here, and the claim with its framework's packages."""
    # Parts that the file shares by reference become copies: each is changed by itself.
    document: dict[str, Any] = json.loads(json.dumps(yaml.safe_load(file.read_text())))
    (replicas,) = (value for name, value in document["spec"].items() if name.lower().endswith("replicaspecs"))
    for replica in replicas.values():
        pod = replica["template"]["spec"]
        pod["volumes"].append({"name": "frameworks", "persistentVolumeClaim": {"claimName": packages}})
        (container,) = pod["containers"]
        container["image"] = image
        container["volumeMounts"].append({"name": "frameworks", "mountPath": PACKAGES_AT, "readOnly": True})
    return document


@pytest.mark.parametrize(
    ("file", "want_reports", "packages"),
    [
        pytest.param("tensorflow/tfjob-ps.yaml", 2, "frameworks", id="TensorFlow with parameter servers"),
        pytest.param("tensorflow/tfjob-mirrored.yaml", 4, "frameworks", id="TensorFlow mirrored"),
        pytest.param("pytorch/pytorchjob.yaml", 2, "frameworks", id="PyTorch under torchrun"),
        pytest.param("jax/jaxjob.yaml", 2, "frameworks", id="JAX"),
        pytest.param("mpi/mpijob-v1.yaml", 2, "frameworks", id="MPI v1"),
        pytest.param("mpi/mpijob-v2beta1.yaml", 2, "frameworks", id="MPI v2beta1"),
        pytest.param("paddle/paddlejob.yaml", 3, "paddle", id="Paddle"),
    ],
)
@pytest.mark.usefixtures("claims")
async def test_mnist_reaches_its_accuracy(
    world: World,
    image: str,
    kubernetes_cluster: ClusterUnderTest,
    tmp_path: Path,
    file: str,
    want_reports: int,
    packages: str,
) -> None:
    given = tmp_path / "job.yaml"
    job = on_these_nodes(EXAMPLES / "kubeflow" / file, image, packages)
    given.write_text(json.dumps(job))
    gangline = CommandLine(kubernetes_cluster, tmp_path, namespace=world.namespace)
    name = job["metadata"]["name"]
    story = await gangline("submit", "-f", str(given))
    wait = partial(asyncio.to_thread, gangline.run, "wait", name, "--timeout", "60s")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (ended := await wait()).returncode == TIMED_OUT:
            continue
    pods = (await world.client.list(PODS, namespace=world.namespace)).items or ()
    logs = [world.client.logs(pod.metadata.name, namespace=world.namespace) for pod in pods]
    lines = [line.decode() for log in logs async for line in log]
    output = "\n".join([story, ended.stdout, ended.stderr, *lines])
    assert ended.returncode == 0, output
    reached = accuracies(output)
    assert len(reached) == want_reports, output
    assert reached[-1] >= TARGET, output
