"""Katib on a real cluster: the unmodified SDK drives it, and every collector reads what trials write."""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangline.kube import CONFIG_MAPS, NAMESPACES, GenericObject, KubeClient, KubeError, Resource
from tests.integration.katib.katib_sdk import check_bad_input, check_function, katib_environment, play
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.libraries import system_libraries
from tests.integration.kubernetes.test_data import CLAIMS, VOLUMES
from tests.integration.kubernetes.test_kubeflow_sdk import image_with_bash
from tests.integration.kubernetes.world import eventually
from tools.cluster.images import Entry, Image
from tools.cluster.pytest_plugin import ClusterUnderTest

# As for test_whole_installation: nobody else may use the custom resources meanwhile, and the name puts it last.
pytestmark = pytest.mark.alone

EXPERIMENTS, TRIALS, SUGGESTIONS = (
    Resource(group="kubeflow.org", version="v1beta1", plural=plural, kind=kind, type=GenericObject)
    for plural, kind in (("experiments", "Experiment"), ("trials", "Trial"), ("suggestions", "Suggestion"))
)


def image_with_the_sdk() -> Image:
    """The image with a shell, and with Katib's SDK for the functions that push metrics."""
    below = image_with_bash()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = katib_environment().parent.parent / "lib" / version / "site-packages"
    layer = {
        f"usr/local/lib/{version}/site-packages/{file.relative_to(packages)}": Entry(source=file)
        for file in packages.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    brought = {path for each in below.layers for path in each}
    layer = {path: entry for path, entry in layer.items() if path not in brought} | system_libraries(below)
    return replace(below, name="gangline.local/katib:1", layers=[*below.layers, layer])


@pytest.fixture(scope="module")
def image(kubernetes_cluster: ClusterUnderTest) -> str:
    described = image_with_the_sdk()
    kubernetes_cluster.load(described)
    return described.name


@pytest.fixture(scope="module")
def admin(
    kubernetes_cluster: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory, image: str
) -> Iterator[CommandLine]:
    """An administrator with an installation that runs Kubeflow's kinds, and its controller as a process."""
    place = tmp_path_factory.mktemp("katib")
    gangline = CommandLine(kubernetes_cluster, place)
    done = gangline.run("install", "--replicas", "0", "--image", image, "--kubeflow", "run")
    assert done.returncode == 0, done.stderr
    with (place / "controller.log").open("wb") as log:
        controller = subprocess.Popen(
            [*gangline._command()[:3], "controller", "run", "--listen", "127.0.0.1:0", "--job-image", image],
            env=gangline.environment,
            cwd=place,
            stdout=log,
            stderr=log,
        )
        yield gangline
        controller.terminate()
        controller.wait()
    print((place / "controller.log").read_text()[-6000:])
    done = gangline.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def tenant(kubernetes_client: KubeClient) -> AsyncIterator[str]:
    """A namespace of this test's own."""
    name = f"katib-{uuid.uuid4().hex[:8]}"
    await kubernetes_client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await release_jobs(kubernetes_client, name)
    await kubernetes_client.delete(NAMESPACES, name)


async def test_the_katib_sdk_drives_the_cluster(
    admin: CommandLine, kubernetes_cluster: ClusterUnderTest, image: str, tenant: str
) -> None:
    del admin
    saw = await asyncio.to_thread(play, str(kubernetes_cluster.kubeconfig), image, tenant)
    check_function(saw["function"])
    check_bad_input(saw)
    assert saw["budget"] == {"before": 2, "after": 4, "most": 4}
    assert saw["no_more"]["trials"] == 2
    assert saw["gang"] == {"kind": "PyTorchJob", "succeeded": 1}
    assert "score=1" in saw["logs"]
    assert saw["pushing"]["succeeded"] == 2


FILES = Path(__file__).parents[1] / "katib" / "files"
FEATURES = {"tfjob": 2, "mpijob": 2, "config-map": 2, "pbt": 6}
"""Experiment files of the laptop's tests that a cluster runs in other ways, and how many trials each has."""


async def make_shared_claim(client: KubeClient, tenant: str, name: str, folder: Path) -> None:
    """Make a claim on a directory of this machine, which every node of the test cluster sees."""
    await asyncio.to_thread(folder.chmod, 0o777)
    shape = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeMode": "Filesystem"}
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}, **shape}
    await client.create(VOLUMES, {"metadata": {"name": tenant}, "spec": volume})
    wanted = {"volumeName": tenant, "resources": {"requests": {"storage": "1Gi"}}, **shape}
    await client.create(CLAIMS, {"metadata": {"name": name}, "spec": wanted}, namespace=tenant)


async def test_events_generations_templates_and_gangs_come_to_the_same_end_as_on_a_laptop(
    admin: CommandLine, kubernetes_client: KubeClient, image: str, tenant: str, tmp_path: Path
) -> None:
    del admin
    await make_shared_claim(kubernetes_client, tenant, "pbt-checkpoints", tmp_path)
    for name in FEATURES:
        text = (FILES / f"{name}.yaml").read_text()
        text = text.replace("image: any", f"image: {image}").replace("Namespace: default", f"Namespace: {tenant}")
        for document in yaml.safe_load_all(text):
            resource = EXPERIMENTS if document["kind"] == "Experiment" else CONFIG_MAPS
            await kubernetes_client.create(resource, document, namespace=tenant)
    for name, trials in FEATURES.items():
        status: dict[str, Any] = {}

        async def ended(name: str = name, status: dict[str, Any] = status) -> bool:
            status.update((await kubernetes_client.get(EXPERIMENTS, name, namespace=tenant)).status)
            return bool(status.get("completionTime"))

        await eventually(ended)
        assert status["conditions"][-1]["type"] == "Succeeded", (name, status)
        assert status["trialsSucceeded"] == trials, (name, status)
    best = (await kubernetes_client.get(EXPERIMENTS, "pbt", namespace=tenant)).status["currentOptimalTrial"]
    assert best["observation"]["metrics"][0]["max"] == "2.0", "it went on from the checkpoint of its parent"
    await kubernetes_client.delete(VOLUMES, tenant)


SCRIPTS = {
    "stdout": ("echo 'epoch 1: loss=0.5'; echo 'loss=0.25'", {}),
    "file": (
        "mkdir -p /katib; for i in 3 2 1; do echo loss=0.$i >> /katib/log; sleep 1; done",
        {"collector": {"kind": "File"}, "source": {"fileSystemPath": {"path": "/katib/log", "kind": "File"}}},
    ),
    "prometheus": (
        "cd /tmp && echo 'loss 0.125' > metrics && timeout 12 python3 -m http.server 9105; true",
        {"collector": {"kind": "PrometheusMetric"}, "source": {"httpGet": {"port": 9105}}},
    ),
}


def experiment(name: str, image: str, script: str, collecting: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "main", "image": image, "command": ["sh", "-c", f"{script}; echo ${{trialParameters.x}}"]}
    job = {"backoffLimit": 0, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    spec = {
        "objective": {"type": "minimize", "objectiveMetricName": "loss"},
        "algorithm": {"algorithmName": "grid"},
        "maxTrialCount": 1,
        "parallelTrialCount": 1,
        "parameters": [{"name": "x", "parameterType": "categorical", "feasibleSpace": {"list": ["a", "b"]}}],
        "trialTemplate": {
            "primaryContainerName": "main",
            "trialParameters": [{"name": "x", "reference": "x"}],
            "trialSpec": {"apiVersion": "batch/v1", "kind": "Job", "spec": job},
        },
    }
    if collecting:
        spec["metricsCollectorSpec"] = collecting
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("name", list(SCRIPTS))
async def test_a_collector_reads_what_trials_write(
    admin: CommandLine, kubernetes_client: KubeClient, image: str, tenant: str, name: str
) -> None:
    del admin
    await kubernetes_client.create(EXPERIMENTS, experiment(name, image, *SCRIPTS[name]), namespace=tenant)
    found: dict[str, Any] = {}

    async def ended() -> bool:
        found.update((await kubernetes_client.get(EXPERIMENTS, name, namespace=tenant)).status)
        return bool(found.get("completionTime"))

    await eventually(ended)
    assert found["conditions"][-1]["type"] == "Succeeded", found
    (metric,) = found["currentOptimalTrial"]["observation"]["metrics"]
    want = {"stdout": ("0.25", "0.5"), "file": ("0.1", "0.3"), "prometheus": ("0.125", "0.125")}[name]
    assert (metric["min"], metric["max"]) == want
    (trial,) = (await kubernetes_client.list(TRIALS, namespace=tenant)).items or ()
    assert trial.status["observation"]["metrics"] == [metric]
    suggestion = await kubernetes_client.get(SUGGESTIONS, name, namespace=tenant)
    assert suggestion.status["suggestionCount"] == 1
    await kubernetes_client.delete(EXPERIMENTS, name, namespace=tenant)

    async def gone() -> bool:
        return not (await kubernetes_client.list(TRIALS, namespace=tenant)).items

    await eventually(gone)


async def test_a_wrong_one_is_refused_by_the_server_or_says_why_in_its_conditions(
    admin: CommandLine, kubernetes_client: KubeClient, image: str, tenant: str
) -> None:
    del admin
    wrong = experiment("wrong", image, "true", {})
    wrong["spec"]["maxTrialCount"] = 0
    with pytest.raises(KubeError, match=r"spec\.maxTrialCount"):
        await kubernetes_client.create(EXPERIMENTS, wrong, namespace=tenant)
    wrong = experiment("wrong", image, "true", {})
    wrong["spec"]["algorithm"]["algorithmName"] = "darts"
    await kubernetes_client.create(EXPERIMENTS, wrong, namespace=tenant)
    said = list[str]()

    async def told() -> bool:
        status = (await kubernetes_client.get(EXPERIMENTS, "wrong", namespace=tenant)).status
        said[:] = [f"{each['type']} {each['message']}" for each in status.get("conditions", ())]
        return bool(said) and said[-1].startswith("Failed")

    await eventually(told)
    assert "spec.algorithm.algorithmName: darts is not supported" in said[-1]
