"""Objects made without reading the answer: a real server's binary refusals are understood."""

from collections.abc import AsyncIterator

import pytest

from gangline.kube import CONFIG_MAPS, PODS, AlreadyExistsError, InvalidError, KubeClient, load_access
from tools.cluster.pytest_plugin import ClusterUnderTest


@pytest.fixture
async def client(kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str) -> AsyncIterator[KubeClient]:
    async with KubeClient(load_access(path=kubernetes_cluster.kubeconfig)) as client:
        client.namespace = kubernetes_namespace
        yield client


async def test_what_is_created_unread_is_there(client: KubeClient) -> None:
    await client.create_unread(CONFIG_MAPS, {"metadata": {"name": "quiet"}, "data": {"a": "1"}})
    assert (await client.get(CONFIG_MAPS, "quiet")).data == {"a": "1"}


async def test_a_taken_name_is_told(client: KubeClient) -> None:
    await client.create_unread(CONFIG_MAPS, {"metadata": {"name": "taken"}})
    with pytest.raises(AlreadyExistsError, match='configmaps "taken" already exists'):
        await client.create_unread(CONFIG_MAPS, {"metadata": {"name": "taken"}})


async def test_an_invalid_object_is_refused_as_its_answer_would_have_said(client: KubeClient) -> None:
    wrong = {"metadata": {"name": "wrong"}, "spec": {"containers": [{"name": "Main"}], "restartPolicy": "Sometimes"}}
    refusals = []
    for create in (client.create, client.create_unread):
        with pytest.raises(InvalidError) as caught:
            await create(PODS, wrong)
        refusals.append((caught.value.message, caught.value.reason, caught.value.causes))
    assert refusals[0] == refusals[1]
    assert "spec.containers[0].image" in caught.value.fields
