"""An installation that runs Kubeflow jobs: its role is enough for them, and it leaves nothing behind."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gangline.engines.kubernetes import Installation, install, installation_objects, uninstall
from gangline.engines.kubernetes.installing.objects import CONTROLLER_NAME
from gangline.kube import CUSTOM_RESOURCE_DEFINITIONS, KubeClient, load_access
from gangline.storage.kubernetes import DEFINITIONS, KubernetesStore, kubeflow_definitions
from tests.integration.kubernetes.kubeflow import Play, Seat, replica
from tests.integration.kubernetes.world import World
from tools.cluster.pytest_plugin import ClusterUnderTest

# See test_whole_installation: nobody else may use the custom resources meanwhile.
pytestmark = pytest.mark.alone

OBJECTS = installation_objects(
    Installation(image="gangline.local/python:1", replicas=0, definitions=[*DEFINITIONS, *kubeflow_definitions()])
)
ACCOUNT = f"system:serviceaccount:gangline-system:{CONTROLLER_NAME}"


@pytest.fixture
async def installed(kubernetes_client: KubeClient) -> AsyncIterator[None]:
    await install(kubernetes_client, OBJECTS, print)
    yield
    await uninstall(kubernetes_client, OBJECTS, print)
    left = (await kubernetes_client.list(CUSTOM_RESOURCE_DEFINITIONS)).items or ()
    assert not [item.metadata.name for item in left if item.metadata.name.endswith((".kubeflow.org", ".gangline.dev"))]


@pytest.mark.usefixtures("installed")
async def test_the_controllers_own_role_is_enough_for_kubeflow_jobs(
    kubernetes_cluster: ClusterUnderTest, kubernetes_client: KubeClient, kubernetes_namespace: str
) -> None:
    access = replace(load_access(path=kubernetes_cluster.kubeconfig), impersonation=(("Impersonate-User", ACCOUNT),))
    async with KubeClient(access) as client:
        world = World(client, kubernetes_namespace, KubernetesStore(client))
        user = Seat(kubernetes_client, kubernetes_namespace, world.store)
        tf = await Play.begin(user, "TFJob", "tf", {"Chief": replica("TFJob"), "PS": replica("TFJob")})
        mpi = {"Launcher": replica("MPIJob", script="true"), "Worker": replica("MPIJob")}
        ranks = await Play.begin(user, "MPIJob", "ranks", mpi)
        await tf.tell_to_exit("chief-0", 0)
        await tf.done("Succeeded")
        await ranks.until(lambda found: bool(found.status.get("gangline")))
        await tf.delete()
        await ranks.delete()
        await world.kill()
        await world.store.close()
