"""The suite's own pipelines on a real cluster: each step a pod of its image, artefacts by way of a volume."""

import asyncio
import json
import os
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangline.kube import NAMESPACES, PODS, KubeClient, Resource
from gangline.kube.objects import GenericObject
from tests.cli.test_pipeline import WANTED
from tests.environments import environment_with
from tests.integration.kfp.test_client import SCENARIOS
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.kfp_image import kfp_image
from tests.pipelines.compiled import KFP, compiled
from tools.cluster.pytest_plugin import ClusterUnderTest

# As for test_whole_installation: nobody else may use the custom resources meanwhile, and the name puts it last.
pytestmark = pytest.mark.alone

VOLUMES = Resource(plural="persistentvolumes", kind="PersistentVolume", type=GenericObject, namespaced=False)
CLAIMS = Resource(plural="persistentvolumeclaims", kind="PersistentVolumeClaim", type=GenericObject)
SECRETS = Resource(plural="secrets", kind="Secret", type=GenericObject)
MORE = {"container": "word=hello none", "exit-handler": None, "told-of-failure": None, "retries": None}
"""What else of the suite runs here; those without an output fail, each for the reason it was written for."""


@pytest.fixture(scope="module")
def image(kubernetes_cluster: ClusterUnderTest) -> str:
    described = kfp_image()
    kubernetes_cluster.load(described)
    return described.name


@pytest.fixture(scope="module")
def admin(
    kubernetes_cluster: ClusterUnderTest, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CommandLine]:
    """An administrator, with the controller as a process of this machine."""
    place = tmp_path_factory.mktemp("pipelines")
    gangline = CommandLine(kubernetes_cluster, place)
    done = gangline.run("install", "--replicas", "0", "--image", image)
    assert done.returncode == 0, done.stderr
    with (place / "controller.log").open("wb") as log:
        controller = subprocess.Popen(
            [*gangline._command()[:3], "controller", "run", "--listen", "127.0.0.1:0", "--job-image", image],
            env=gangline.environment,
            cwd=place,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    yield gangline
    controller.terminate()
    controller.wait()
    done = gangline.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def tenant(kubernetes_client: KubeClient, tmp_path: Path) -> AsyncIterator[str]:
    """A namespace of this test's own, with a claim on a directory of this machine, which every node sees."""
    name = f"pipelines-{uuid.uuid4().hex[:8]}"
    await kubernetes_client.create(NAMESPACES, {"metadata": {"name": name}})
    disk = await asyncio.to_thread(_disk, tmp_path)
    shape = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeMode": "Filesystem"}
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(disk)}, **shape}
    await kubernetes_client.create(VOLUMES, {"metadata": {"name": name}, "spec": volume})
    wanted = {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}, **shape}
    await kubernetes_client.create(CLAIMS, {"metadata": {"name": "disk"}, "spec": wanted}, namespace=name)
    yield name
    await release_jobs(kubernetes_client, name)
    await kubernetes_client.delete(NAMESPACES, name)
    await kubernetes_client.delete(VOLUMES, name)


def _disk(folder: Path) -> Path:
    (folder / "disk").mkdir()
    (folder / "disk").chmod(0o777)
    return folder / "disk"


def in_image(file: Path, image: str, folder: Path) -> Path:
    """Write a compiled pipeline whose steps run in an image that the cluster has."""
    documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    for executor in documents[0]["deploymentSpec"]["executors"].values():
        if "container" in executor:
            executor["container"]["image"] = image
    target = folder / file.name
    target.write_text(yaml.safe_dump_all(documents, allow_unicode=True), encoding="utf-8")
    return target


async def test_pipelines_of_the_suite_run_as_on_one_machine(
    admin: CommandLine, tenant: str, image: str, kubernetes_client: KubeClient
) -> None:
    chosen = [*WANTED, *MORE]
    assert len(chosen) >= 20
    files = {name: in_image(compiled()[name], image, admin.folder) for name in chosen}
    common = ("--tenant", tenant, "--root", "pvc://disk/runs")
    needs = {"exit-handler": ("-p", "folder=/nowhere"), "retries": ("-p", "folder=/nowhere")}
    for name, file in files.items():
        await admin("pipeline", "run", "-f", str(file), "--name", name, *needs.get(name, ()), *common)
    failures: dict[str, str] = {}
    for name in chosen:
        ends = await admin("pipeline", "get", "-w", name, "--tenant", tenant, want_code=_code(name))
        want_line = WANTED.get(name) or MORE.get(name)
        if want_line and want_line not in ends:
            failures[name] = ends
    assert failures == {}
    shown = json.loads(await admin("pipeline", "get", "told-of-failure", "-o", "json", "--tenant", tenant))
    assert "the disk is full" in shown["status"]["failure"]
    assert "ended: FAILED" in await admin("pipeline", "logs", "told-of-failure", "shout", "--tenant", tenant)
    await admin("pipeline", "run", "-f", str(files["artifacts"]), "--name", "again", *common)
    assert "reused from artifacts/write" in await admin("pipeline", "get", "-w", "again", "--tenant", tenant)
    pods = (await kubernetes_client.list(PODS, namespace=tenant)).items or []
    assert not [pod.metadata.name for pod in pods if "driver" in pod.metadata.name]


def _code(name: str) -> int:
    return 1 if name in ("exit-handler", "told-of-failure", "retries") else 0


async def test_kfp_client_drives_a_cluster(admin: CommandLine, tenant: str, image: str) -> None:
    """The unmodified client, through what ``pipeline api`` serves out of the objects of a namespace."""
    words = ("--tenant", tenant, "pipeline", "api", "--root", "pvc://disk/runs")
    serving = admin.start(*words, output=subprocess.PIPE)
    assert serving.stdout is not None
    try:
        host = (await asyncio.to_thread(serving.stdout.readline)).decode().strip()
        failures: dict[str, str] = {}
        for scenario in ("conditions", "output_a_directory", "pipelines_and_versions", "recurring_runs"):
            place = admin.folder / scenario
            place.mkdir()
            done = await asyncio.to_thread(
                subprocess.run,
                [environment_with(KFP), SCENARIOS, host, place, scenario],
                env={**os.environ, "STEP_IMAGE": image},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                failures[scenario] = done.stdout + done.stderr
        assert failures == {}
    finally:
        serving.terminate()
        assert await asyncio.to_thread(serving.wait) == 0
        serving.stdout.close()


async def test_settings_of_a_pod_are_honoured(
    admin: CommandLine, tenant: str, image: str, kubernetes_client: KubeClient
) -> None:
    secret = {"metadata": {"name": "keys"}, "stringData": {"user": "ada", "word": "tea"}}
    await kubernetes_client.create(SECRETS, secret, namespace=tenant)
    before = "$(cat /disk/before 2>/dev/null)"
    script = f'printf "%s %s %s %s" "$USERNAME" "$(cat /keys/word)" "$POD" "{before}" >"$1"; echo x >/disk/before'
    component: dict[str, Any] = {
        "executorLabel": "exec-look",
        "outputDefinitions": {"parameters": {"out": {"parameterType": "STRING"}}},
    }
    place = "{{$.outputs.parameters['out'].output_file}}"
    container = {"image": image, "command": ["sh", "-c", script, "sh", place]}
    settings = {
        "secretAsEnv": [{"secretName": "keys", "keyToEnv": [{"secretKey": "user", "envVar": "USERNAME"}]}],
        "secretAsVolume": [{"secretName": "keys", "mountPath": "/keys"}],
        "pvcMount": [{"constant": "disk", "mountPath": "/disk"}],
        "podMetadata": {"labels": {"team": "red"}, "annotations": {"note": "here"}},
        "fieldPathAsEnv": [{"name": "POD", "fieldPath": "metadata.labels['team']"}],
        "nodeSelector": {"labels": {"kubernetes.io/os": "linux"}},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "imagePullPolicy": "IfNotPresent",
        "activeDeadlineSeconds": "120",
    }
    outputs = {"out": {"valueFromParameter": {"producerSubtask": "look", "outputParameterKey": "out"}}}
    pipeline = {
        "pipelineInfo": {"name": "settings"},
        "schemaVersion": "2.1.0",
        "components": {"comp-look": component},
        "deploymentSpec": {"executors": {"exec-look": {"container": container}}},
        "root": {
            "dag": {"tasks": {"look": {"componentRef": {"name": "comp-look"}}}, "outputs": {"parameters": outputs}},
            "outputDefinitions": component["outputDefinitions"],
        },
    }
    second = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-look": settings}}}}}
    file = admin.folder / "settings.yaml"
    file.write_text(yaml.safe_dump_all([pipeline, second]), encoding="utf-8")
    said = await admin("pipeline", "run", "-f", str(file), "--name", "settings", "--tenant", tenant, "--follow")
    assert 'out = "ada tea red "' in said
    said = await admin("pipeline", "run", "-f", str(file), "--name", "next", "--tenant", tenant, "--follow")
    assert 'out = "ada tea red x"' in said
