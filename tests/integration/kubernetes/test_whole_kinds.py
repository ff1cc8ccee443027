"""Kinds on a real cluster: queues by commands, and the kind of docs/adding-a-kind.md from another package."""

import json
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from gangline.kube import NAMESPACES, KubeClient, Resource
from gangline.kube.objects import GenericObject
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tests.kinds.support import write_package
from tools.cluster import BUSYBOX
from tools.cluster.pytest_plugin import ClusterUnderTest

# As for test_whole_installation: nobody else may use the custom resources meanwhile, and the name puts it last.
pytestmark = pytest.mark.alone

REPEATS = Resource(group="gangline.dev", version="v1", plural="repeats", kind="Repeat", type=GenericObject)


@pytest.fixture(scope="module")
def admin(kubernetes_cluster: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """An administrator whose machine has the package, with the controller as a process of it."""
    place = tmp_path_factory.mktemp("kind")
    write_package(place)
    gangline = CommandLine(kubernetes_cluster, place)
    gangline.environment["PYTHONPATH"] = str(place)
    done = gangline.run("install", "--replicas", "0", "--image", BUSYBOX)
    assert done.returncode == 0, done.stderr
    controller = subprocess.Popen(
        [*gangline._command()[:3], "controller", "run", "--listen", "127.0.0.1:0", "--job-image", BUSYBOX],
        env=gangline.environment,
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield gangline
    controller.terminate()
    controller.wait()
    done = gangline.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def tenant(kubernetes_client: KubeClient) -> AsyncIterator[str]:
    """A namespace of this test's own."""
    name = f"kinds-{uuid.uuid4().hex[:8]}"
    await kubernetes_client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await release_jobs(kubernetes_client, name)
    await kubernetes_client.delete(NAMESPACES, name)


async def test_a_kind_of_another_package_runs_from_the_command_line(admin: CommandLine, tenant: str) -> None:
    assert "nightly" in await admin("repeat", "create", "-f", "nightly.yaml", "--tenant", tenant)
    assert "nightly is finished" in await admin("repeat", "wait", "nightly", "--timeout", "120s", "--tenant", tenant)
    (shown,) = json.loads(await admin("repeat", "list", "-o", "json", "--tenant", tenant))
    assert (shown["kind"], shown["status"]["begun"], shown["status"]["failed"]) == ("Repeat", 3, 0)
    assert "- nightly-2: COMPLETED" in await admin("repeat", "describe", "nightly", "--tenant", tenant)
    await admin("repeat", "delete", "nightly", "--tenant", tenant)
    assert "no jobs" in await admin("list", "--tenant", tenant)


async def test_and_by_kubectl_with_its_jobs_going_along(
    admin: CommandLine, tenant: str, kubernetes_client: KubeClient
) -> None:
    document = yaml.safe_load((admin.folder / "nightly.yaml").read_text())
    document["metadata"]["namespace"] = tenant
    await kubernetes_client.create(REPEATS, document)
    await admin.until(lambda said: "nightly  finished" in said, "repeat", "list", "--tenant", tenant)
    kept = await kubernetes_client.get(REPEATS, "nightly", namespace=tenant)
    assert kept.status["state"] == "finished"
    await kubernetes_client.delete(REPEATS, "nightly", namespace=tenant)
    await admin.until(lambda said: "no jobs" in said, "list", "--tenant", tenant)


async def test_what_no_schema_can_refuse_is_told_in_the_status(
    admin: CommandLine, tenant: str, kubernetes_client: KubeClient
) -> None:
    document = yaml.safe_load((admin.folder / "nightly.yaml").read_text())
    document["metadata"]["namespace"] = tenant
    document["spec"]["times"] = 0
    await kubernetes_client.create(REPEATS, document)

    async def told() -> str:
        found = await kubernetes_client.get(REPEATS, "nightly", namespace=tenant)
        return str(found.status.get("message") or "")

    for _ in range(300):
        if "0 is too small" in await told():
            break
        await admin("version")
    assert "0 is too small" in await told()
    await kubernetes_client.delete(REPEATS, "nightly", namespace=tenant)


async def test_queues_are_made_changed_and_deleted_by_commands(admin: CommandLine, tmp_path: Path, tenant: str) -> None:
    assert await admin("queue", "create", "research", "--weight", "3", "--limit", "gpu=8,cpu=4") == "research\n"
    await admin("queue", "create", "vision", "--parent", "research")
    await admin("queue", "edit", "research", "--limit", "cpu=2,memory=1Gi", "--weight", "5")
    (found,) = [each for each in json.loads(await admin("queue", "list", "-o", "json")) if each["spec"].get("limit")]
    assert found["spec"] == {"weight": 5, "limit": {"cpu": 2, "memory": "1Gi"}}
    assert "others below it: vision" in await admin("queue", "delete", "research", want_code=4)
    small = ("--cpu", "50m", "--memory", "32Mi", "--image", BUSYBOX)
    words = ("submit", "--tenant", tenant, "--name", "first", "--queue", "vision", "--wait", *small, "--", "true")
    await admin(*words)
    await admin("queue", "delete", "vision", "research")
    assert "no queue 'vision'" in await admin(*words[:4], "second", *words[5:], want_code=2)


async def test_whoever_may_not_write_queues_is_refused(
    admin: CommandLine, kubernetes_cluster: ClusterUnderTest, tmp_path: Path, tenant: str
) -> None:
    del admin
    ada = CommandLine(kubernetes_cluster, tmp_path, user="ada", namespace=tenant)
    assert "default" in await ada("queue", "list")
    said = await ada("queue", "create", "mine", want_code=5)
    assert "forbidden" in said
