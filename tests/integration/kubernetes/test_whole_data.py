"""MNIST from a bucket into a bucket on a cluster, from the command line, and the very same file on this machine.

The job's image has no storage library; the tenant's person has no more rights than Kubernetes' own role ``edit``.
"""

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from gangline.kube import NAMESPACES, PODS, KubeClient
from tests.data.servers import s3_server
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.object_store import KEY, SECRET, ClusterS3, deploy
from tests.integration.kubernetes.test_data import VOLUMES, make_disk
from tests.integration.kubernetes.test_object_stores import claim_on
from tests.integration.kubernetes.test_whole_command_line import ROLE_BINDINGS
from tests.ps.test_mnist_example import write_images
from tools.cluster.images import PYTHON, Entry, Image, busybox_layer
from tools.cluster.pytest_plugin import ClusterUnderTest

pytestmark = pytest.mark.alone

EXAMPLE = Path(__file__).parents[3] / "examples" / "mnist"
THIEF = f"""
apiVersion: gangline.dev/v1
kind: Job
metadata: {{name: thief}}
spec:
  image: {PYTHON}
  command: ["true"]
  resources: {{cpu: 50m, memory: 32Mi}}
  data: {{inputs: [{{from: s3://lake/mnist, store: lake, to: $DATA_DIR}}]}}
"""
LEARNER = "gangline.local/learner:1"
"""An image as FfDL's are: it has a shell called bash, and here nothing else."""
MANIFEST = f"""
name: ffdl
cpus: 0.1
memory: 128MB
data_stores:
  - type: mount_cos
    training_data: {{container: lake/ffdl-in}}
    training_results: {{container: lake/ffdl-out}}
    connection: {{auth_url: "ENDPOINT", user_name: "{KEY}", password: "{SECRET}"}}
framework:
  name: custom
  version: {LEARNER}
  command: |
    cat $DATA_DIR/log; echo trained > $RESULT_DIR/model
evaluation_metrics:
  type: regex_extractor
  groups:
    test:
      regex: 'step %{{INT:step}}\\nloss %{{FLOAT:loss}}'
      scalars: {{loss: {{type: FLOAT, value: $loss}}}}
      etimes: {{iteration: {{type: INT, value: $step}}}}
"""
KEYS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}


@pytest.fixture(scope="module")
def admin(
    kubernetes_cluster: ClusterUnderTest,
    kubernetes_gangline_image: str,
    kubernetes_python_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CommandLine]:
    """An administrator who has installed Gangline with its own image, and removes it afterwards."""
    assert kubernetes_python_image == PYTHON
    gangline = CommandLine(kubernetes_cluster, tmp_path_factory.mktemp("admin"))
    done = gangline.run("install", "--image", kubernetes_gangline_image)
    assert done.returncode == 0, done.stderr
    yield gangline
    done = gangline.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def s3(
    kubernetes_client: KubeClient, kubernetes_cluster: ClusterUnderTest, tmp_path: Path
) -> AsyncIterator[ClusterS3]:
    namespace = f"s3-{uuid.uuid4().hex[:10]}"
    yield await deploy(kubernetes_client, kubernetes_cluster, namespace, tmp_path / "buckets")
    await kubernetes_client.delete(NAMESPACES, namespace)


@pytest.fixture
async def people(
    admin: CommandLine, kubernetes_client: KubeClient, kubernetes_cluster: ClusterUnderTest, tmp_path: Path
) -> AsyncIterator[tuple[CommandLine, CommandLine]]:
    """Ada and Bob, each of whom may edit a namespace of their own."""
    made = []
    for user in ("ada", "bob"):
        name = f"{user}-{uuid.uuid4().hex[:8]}"
        await kubernetes_client.create(NAMESPACES, {"metadata": {"name": name}})
        binding = {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        await kubernetes_client.create(ROLE_BINDINGS, binding, namespace=name)
        (tmp_path / user).mkdir()
        person = CommandLine(kubernetes_cluster, tmp_path / user, user=user, namespace=name)
        person.environment |= KEYS
        made.append((person, name))
    yield made[0][0], made[1][0]
    for _, name in made:
        await release_jobs(kubernetes_client, name)
        await kubernetes_client.delete_all(PODS, labels=None, namespace=name, grace_seconds=0)
        await kubernetes_client.delete(NAMESPACES, name)


@pytest.fixture
async def sets(
    people: tuple[CommandLine, CommandLine], kubernetes_client: KubeClient, tmp_path: Path
) -> AsyncIterator[str]:
    """A volume of Ada's."""
    namespace = people[0].namespace
    disk = await asyncio.to_thread(make_disk, tmp_path)
    await claim_on(kubernetes_client, namespace, "sets", disk)
    yield "sets"
    await kubernetes_client.delete(VOLUMES, f"{namespace}-sets")


def write_job(folder: Path) -> Path:
    """The example as it is, in an image without a storage library, which a machine's own engine does not look at."""
    shutil.copy(EXAMPLE / "train.py", folder)
    text = (EXAMPLE / "stored.yaml").read_text().replace("spec:\n", f"spec:\n  image: {PYTHON}\n", 1)
    (folder / "stored.yaml").write_text(text)
    return folder / "stored.yaml"


def fill(bucket: Path) -> None:
    (bucket / "mnist").mkdir(parents=True)
    write_images(bucket / "mnist", "train", 4000)
    write_images(bucket / "mnist", "t10k", 500)


def check_weights(folder: Path) -> None:
    with np.load(folder / "weights.npz") as weights:
        assert weights["weight0"].shape == (784, 128)


async def test_mnist_trains_from_a_bucket_into_a_bucket_on_a_cluster(
    people: tuple[CommandLine, CommandLine], s3: ClusterS3
) -> None:
    ada, bob = people
    fill(s3.folder / "lake")
    write_job(ada.folder)
    await ada("store", "add", "lake", "s3://lake", "--endpoint", s3.endpoint, "--default")
    await ada("submit", "-f", "stored.yaml", "--wait")
    assert json.loads((s3.at("s3://lake/results/mnist-stored") / "result.json").read_text())["accuracy"] > 0.9
    for words in (("get", "mnist-stored", "-o", "yaml"), ("store", "list", "-o", "yaml"), ("describe", "mnist-stored")):
        said = await ada(*words)
        assert SECRET not in said
        assert base64.b64encode(SECRET.encode()).decode() not in said
    assert "results/result.json" in await ada("results", "mnist-stored")
    await ada("cp", "mnist-stored:results/", "out")
    check_weights(ada.folder / "out" / "model")
    assert "mnist" in await ada("model", "list")
    await ada("model", "promote", "mnist:1", "production")
    await ada("model", "download", "mnist@production", "taken")
    check_weights(ada.folder / "taken")
    (ada.folder / "by-hand").write_text("more")
    assert "mnist:2" in await ada("model", "register", "mnist", "by-hand")
    await ada("model", "delete", "mnist:2")
    # Another tenant has none of it, by name or by address.
    await bob("store", "list")
    assert "lake" not in await bob("store", "list")
    assert "no model named 'mnist'" in await bob("model", "download", "mnist", "theirs", want_code=3)
    assert "forbid" in await bob("--tenant", ada.namespace, "model", "list", want_code=5)
    (bob.folder / "thief.yaml").write_text(THIEF)
    assert "there is no store 'lake'" in await bob("submit", "-f", "thief.yaml", "--wait", want_code=1)


async def test_copies_by_hand_use_the_stores_and_volumes_of_a_cluster(
    people: tuple[CommandLine, CommandLine], s3: ClusterS3, sets: str
) -> None:
    ada, bob = people
    tree = ada.folder / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "a").write_text("one")
    (tree / "deep" / "b").write_text("two")
    (s3.folder / "lake").mkdir()
    await ada("store", "add", "lake", "s3://lake", "--endpoint", s3.endpoint)
    await ada("cp", "tree", "s3://lake/tree", "--store", "lake")
    assert (s3.at("s3://lake/tree") / "deep" / "b").read_text() == "two"
    await ada("cp", "s3://lake/tree", f"pvc://{sets}/tree", "--store", "lake")
    await ada("cp", f"pvc://{sets}/tree", "back")
    assert (ada.folder / "back" / "deep" / "b").read_text() == "two"
    await ada("cp", f"pvc://{sets}/tree/a", "back/deep/")
    assert (ada.folder / "back" / "deep" / "a").read_text() == "one"
    assert "there is nothing there" in await ada("cp", "s3://lake/none", "no", "--store", "lake", want_code=1)
    assert "no store named 'lake'" in await bob("cp", "s3://lake/tree", "no", "--store", "lake", want_code=3)
    await ada.until(lambda said: "cp-" not in said, "list")


async def test_an_ffdl_manifest_runs_without_its_keys_and_its_numbers_are_found(
    people: tuple[CommandLine, CommandLine], s3: ClusterS3, kubernetes_cluster: ClusterUnderTest
) -> None:
    ada, _ = people
    bash = {"bin/bash": Entry(text='#!/bin/sh\nexec sh "$@"\n', mode=0o755)}
    kubernetes_cluster.load(Image(name=LEARNER, layers=[busybox_layer(), bash]))
    s3.give("s3://lake/ffdl-in/log", "step 1\nloss 0.5\nstep 2\nloss 0.25\n")
    (ada.folder / "manifest.yml").write_text(MANIFEST.replace("ENDPOINT", s3.endpoint))
    await ada("submit", "-f", "manifest.yml", "--wait")
    found = json.loads(await ada("metrics", "ffdl", "-o", "json"))
    assert [(each["name"], each["step"], each["value"]) for each in found] == [
        ("test/loss", 1, 0.5),
        ("test/loss", 2, 0.25),
    ]
    assert s3.at("s3://lake/ffdl-out/ffdl/model").read_text() == "trained\n"
    for words in (("get", "ffdl", "-o", "yaml"), ("events", "ffdl"), ("store", "list", "-o", "yaml")):
        assert SECRET not in await ada(*words)


def test_the_very_same_file_trains_on_this_machine(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_job(folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_"))}
    # The path of a socket may not be long.
    run = tempfile.mkdtemp(prefix="gl-", dir="/dev/shm")
    home = {"HOME": str(tmp_path), "GANGLINE_HOME": str(tmp_path / "h"), "XDG_RUNTIME_DIR": run}

    def gangline(*words: str) -> str:
        command = [sys.executable, "-m", "gangline.cli.main", *words]
        done = subprocess.run(
            command, env={**kept, **home, **KEYS}, cwd=folder, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    with s3_server(tmp_path / "buckets") as server:
        fill(server.folder / "lake")
        try:
            gangline("store", "add", "lake", "s3://lake", "--endpoint", server.credentials.endpoint, "--default")
            gangline("submit", "-f", "stored.yaml", "--wait")
            stored = server.folder / "lake" / "results" / "mnist-stored"
            assert json.loads((stored / "result.json").read_text())["accuracy"] > 0.9
            gangline("model", "download", "mnist", "taken")
            check_weights(folder / "taken")
        finally:
            gangline("server", "stop")
            shutil.rmtree(run)
