"""The PyPI package kubeflow-training, unmodified, drives a real cluster."""

import asyncio
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.kubeflow.training_sdk import SCENARIOS, sdk_environment
from tests.integration.kubernetes.world import World
from tools.cluster import python_image
from tools.cluster.images import Entry, Image
from tools.cluster.pytest_plugin import ClusterUnderTest

MASTERS = {
    "TFJob": ("chief-0", "chief"),
    "PyTorchJob": ("master-0", "master"),
    "MPIJob": ("launcher", "launcher"),
    "JAXJob": ("worker-0", "worker"),
}
BASH = Path("/bin/bash")


def image_with_bash() -> Image:
    """The Python image with the shell that the SDK's own command line needs."""
    below = python_image()
    listing = subprocess.run(["ldd", str(BASH)], capture_output=True, text=True, check=True).stdout
    layer = {"bin/bash": Entry(source=BASH.resolve(), mode=0o755)}
    for path in re.findall(r"=> (/\S+) \(", listing):
        layer[path.lstrip("/")] = Entry(source=Path(path).resolve(), mode=0o755)
    torchrun = '#!/bin/sh\nexec python3 -u "$@"\n'
    layer["usr/local/bin/torchrun"] = Entry(text=torchrun, mode=0o755)
    brought = {path for each in below.layers for path in each}
    layer = {path: entry for path, entry in layer.items() if path not in brought or path == "bin/bash"}
    return replace(below, name="gangline.local/bash:1", layers=[*below.layers, layer])


@pytest.fixture
def image(kubernetes_cluster: ClusterUnderTest) -> str:
    described = image_with_bash()
    kubernetes_cluster.load(described)
    return described.name


async def test_the_training_sdk_drives_the_cluster(
    kubeflow: World, kubernetes_cluster: ClusterUnderTest, image: str, tmp_path: Path
) -> None:
    arguments = [str(kubernetes_cluster.kubeconfig), "none", str(tmp_path), image, kubeflow.namespace]
    process = await asyncio.create_subprocess_exec(
        str(await asyncio.to_thread(sdk_environment)),
        "-W",
        "ignore",
        str(SCENARIOS),
        *arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    saw: dict[str, Any] = json.loads(output)
    failed = {name: outcome["failed"] for name, outcome in saw.items() if "failed" in outcome}
    assert not failed, "\n".join(failed.values())
    for kind in MASTERS:
        check_life(saw[f"life {kind}"]["saw"], kind)
        check_suspension(saw[f"suspension {kind}"]["saw"])
    for kind, pod in (("TFJob", "worker-0"), ("PyTorchJob", "master-0")):
        logs = saw[f"function {kind}"]["saw"]
        assert "rate 0.5 word installed role trainer\n" in logs[f"function-{kind.lower()}-{pod}"]
    assert saw["image PyTorchJob"]["saw"] is True
    objects = saw["objects TFJob"]["saw"]
    assert objects["logs"] == {"objects-chief-0": "hello\nsesame world world objects-chief-0\nmade\n"}


def check_life(seen: dict[str, Any], kind: str) -> None:
    name, (pod, role) = f"life-{kind.lower()}", MASTERS[kind]
    pod = f"{name}-{pod}"
    phase, labels = seen["pods"][pod]
    assert phase == "Running"
    prefix = "training.kubeflow.org/"
    assert {key.removeprefix(prefix): value for key, value in labels.items() if key.startswith(prefix)} == {
        "job-name": name,
        "job-role": "master",
        "operator-name": f"{kind.lower()}-controller",
        "replica-type": role,
        "replica-index": "0",
    }
    assert len(seen["pods"]) == 2
    assert (seen["master"], seen["worker"]) == ([pod], [f"{name}-worker-0"])
    assert seen["followed"] == {pod: "beginend"}, "the SDK joins the lines it follows"
    assert seen["logs"] == {pod: "begin\nend\n"}
    assert {f"pod/{pod}", f"{kind.lower()}/{name}"} <= {event.lower() for event in seen["events"]}
    assert seen["listed"]
    assert seen["succeeded"]
    assert seen["completed"]
    assert seen["uid_is_stable"]
    assert seen["conditions"] == {"Created": "True", "Running": "False", "Succeeded": "True"}
    assert seen["annotations"]["note"] == "mine"
    assert "(404)" in seen["after_deletion"]


def check_suspension(seen: dict[str, Any]) -> None:
    assert seen["created"] == {"Created": "True", "Suspended": "True"}
    assert seen["pods_created"] == []
    assert seen["suspended"] == {"Created": "True", "Running": "False", "Suspended": "True"}
    assert (seen["resumed"]["Running"], seen["resumed"]["Suspended"]) == ("True", "False")
    assert seen["labels"] == {"team": "other"}
