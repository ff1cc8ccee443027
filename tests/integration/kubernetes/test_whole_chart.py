"""A release of the chart on a real cluster: installed, given other values, removed, installed again."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gangline.compose.installing import ClusterInstallation, Kubeflow
from gangline.engines.kubernetes import uninstall
from gangline.kinds.train_job import CLUSTER_TRAINING_RUNTIME
from gangline.kube import NAMESPACES, SECRETS, GenericObject, KubeClient, NotFoundError, Resource
from gangline.storage.kubernetes import DEFINITIONS, JOBS, kubeflow_definitions
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.helm import CHART, Helm, settings
from tests.integration.kubernetes.inventory import everything
from tests.integration.kubernetes.world import eventually
from tools.cluster import BUSYBOX
from tools.cluster.pytest_plugin import ClusterUnderTest

# As for test_whole_installation: nobody else may use the custom resources meanwhile, and the name puts it last.
pytestmark = pytest.mark.alone

RELEASE = "gangline"
TFJOBS = Resource(group="kubeflow.org", plural="tfjobs", kind="TFJob", type=GenericObject)
DEPLOYMENTS = Resource(group="apps", plural="deployments", kind="Deployment", type=GenericObject)
DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
SERVICES_PATH = "/apis/apiregistration.k8s.io/v1/apiservices/"
"""Where the server lists the groups that it serves, among them those of the definitions."""
SMALL = {"cpu": "50m", "memory": "32Mi"}


class Administrator:
    """Somebody who keeps one release of the chart, and sees its objects."""

    def __init__(self, helm: Helm, client: KubeClient, *, image: str) -> None:
        self.client = client
        self.namespace = f"release-{uuid.uuid4().hex[:8]}"
        self._helm = helm
        self._image = image

    def install(self, **values: object) -> None:
        self._helm.run("install", RELEASE, str(CHART), "--create-namespace", *self._values(**values))

    def upgrade(self, **values: object) -> None:
        self._helm.run("upgrade", RELEASE, str(CHART), *self._values(**values))

    def uninstall(self) -> None:
        self._helm.run("uninstall", RELEASE, "--namespace", self.namespace, "--wait", "--ignore-not-found")

    async def controllers(self) -> int:
        """How many controllers the release is to have."""
        found = await self.client.get(DEPLOYMENTS, "gangline-controller", namespace=self.namespace)
        return int(found.spec["replicas"])

    def _values(self, **values: object) -> list[str]:
        place = ("--namespace", self.namespace, "--wait", "--timeout", "240s")
        return [*place, *settings(image=self._image, **values)]


@pytest.fixture
async def administrator(
    helm_program: Path,
    kubernetes_cluster: ClusterUnderTest,
    kubernetes_python_image: str,
    kubernetes_client: KubeClient,
    tmp_path: Path,
) -> AsyncIterator[Administrator]:
    helm = Helm(helm_program, tmp_path, kubeconfig=kubernetes_cluster.kubeconfig)
    one = Administrator(helm, kubernetes_client, image=kubernetes_python_image)
    everywhere = ClusterInstallation(context="any", namespace=one.namespace, kubeflow=Kubeflow.RUN).objects()
    await uninstall(kubernetes_client, everywhere, print)
    yield one
    one.uninstall()
    await uninstall(kubernetes_client, everywhere, print)


def a_job(name: str) -> dict[str, Any]:
    worker = {"replicas": 1, "command": ["true"], "image": BUSYBOX, "resources": SMALL}
    return {"metadata": {"name": name}, "spec": {"roles": {"worker": worker}}}


def a_tfjob(name: str) -> dict[str, Any]:
    container = {"name": "tensorflow", "image": BUSYBOX, "command": ["true"], "resources": {"requests": SMALL}}
    worker = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    return {"metadata": {"name": name}, "spec": {"tfReplicaSpecs": {"Worker": worker}}}


async def until_completed(client: KubeClient, name: str, namespace: str) -> None:
    async def completed() -> bool:
        return (await client.get(JOBS, name, namespace=namespace)).status.get("phase") == "COMPLETED"

    await eventually(completed)


async def until_succeeded(client: KubeClient, name: str, namespace: str) -> None:
    async def succeeded() -> bool:
        status = (await client.get(TFJOBS, name, namespace=namespace)).status
        return any(item["type"] == "Succeeded" and item["status"] == "True" for item in status.get("conditions", ()))

    await eventually(succeeded)


async def test_a_release_runs_jobs_and_takes_other_values(
    administrator: Administrator, kubernetes_client: KubeClient, kubernetes_namespace: str
) -> None:
    administrator.install()
    assert await administrator.controllers() == 2
    await kubernetes_client.create(JOBS, a_job("first"), namespace=kubernetes_namespace)
    await until_completed(kubernetes_client, "first", kubernetes_namespace)
    with pytest.raises(NotFoundError):
        await kubernetes_client.list(TFJOBS, namespace=kubernetes_namespace)

    administrator.upgrade(replicas=1, kubeflow="run")
    assert await administrator.controllers() == 1
    await kubernetes_client.create(TFJOBS, a_tfjob("second"), namespace=kubernetes_namespace)
    await until_succeeded(kubernetes_client, "second", kubernetes_namespace)

    administrator.upgrade(replicas=1, kubeflow="leave")
    await kubernetes_client.create(JOBS, a_job("third"), namespace=kubernetes_namespace)
    await until_completed(kubernetes_client, "third", kubernetes_namespace)
    await release_jobs(kubernetes_client, kubernetes_namespace)


async def test_a_removed_release_leaves_only_what_helm_keeps(
    administrator: Administrator, kubernetes_client: KubeClient, kubernetes_namespace: str
) -> None:
    before = await everything(kubernetes_client)
    administrator.install(replicas=1, kubeflow="strict")
    await kubernetes_client.create(JOBS, a_job("first"), namespace=kubernetes_namespace)
    await until_completed(kubernetes_client, "first", kubernetes_namespace)
    administrator.uninstall()

    async def no_secret_is_left() -> bool:
        return not (await kubernetes_client.list(SECRETS, namespace=administrator.namespace)).items

    await eventually(no_secret_is_left)
    await kubernetes_client.delete(NAMESPACES, administrator.namespace)
    defined = (*DEFINITIONS, *kubeflow_definitions())
    definitions = {f"{DEFINITIONS_PATH}/{item['metadata']['name']}" for item in defined}
    job = f"/apis/gangline.dev/v1/jobs/{kubernetes_namespace}/first"
    runtimes = CLUSTER_TRAINING_RUNTIME
    place = f"/apis/{runtimes.api_version}/{runtimes.plural}/"
    kept = definitions | {job} | {f"{place}/{spec.name}" for spec in runtimes.always}

    def matters(path: str) -> bool:
        return path == job or not (path.startswith(SERVICES_PATH) or f"/{kubernetes_namespace}/" in path)

    async def left() -> set[str]:
        return set(filter(matters, await everything(kubernetes_client) - before))

    async def the_rest_is_gone() -> bool:
        return await left() <= kept

    await eventually(the_rest_is_gone)
    assert await left() == kept
    await release_jobs(kubernetes_client, kubernetes_namespace)


async def test_a_release_is_installed_over_what_an_earlier_one_kept(
    administrator: Administrator, kubernetes_client: KubeClient, kubernetes_namespace: str
) -> None:
    administrator.install(replicas=1, kubeflow="run")
    administrator.uninstall()
    await kubernetes_client.create(JOBS, a_job("waiting"), namespace=kubernetes_namespace)
    await kubernetes_client.create(TFJOBS, a_tfjob("patient"), namespace=kubernetes_namespace)

    administrator.install(replicas=1, kubeflow="run")
    await until_completed(kubernetes_client, "waiting", kubernetes_namespace)
    await until_succeeded(kubernetes_client, "patient", kubernetes_namespace)
    await release_jobs(kubernetes_client, kubernetes_namespace)
