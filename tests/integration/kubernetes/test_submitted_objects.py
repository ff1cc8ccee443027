"""ConfigMaps and Secrets in the file of a job reach the cluster with it, and nobody else's are touched."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes.launching.submitted_objects import send_object
from gangline.errors import ConflictError
from gangline.kube import CONFIG_MAPS, KubeClient, Resource, load_access
from gangline.kube.objects import ConfigMap
from gangline.model import JobId
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.kubeflow import Play, job_object, replica
from tests.integration.kubernetes.world import World
from tools.cluster.pytest_plugin import ClusterUnderTest

Plain = dict[str, Any]
SECRETS = Resource(plural="secrets", kind="Secret", type=ConfigMap)
"""Secrets with what they hold, which the platform itself never reads."""


def config_map(**data: str) -> Plain:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": data}


def secret(**texts: str) -> Plain:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": texts}


@pytest.fixture
async def client(kubernetes_cluster: ClusterUnderTest) -> AsyncIterator[KubeClient]:
    async with KubeClient(load_access(path=kubernetes_cluster.kubeconfig)) as client:
        yield client


async def data_of(client: KubeClient, namespace: str) -> dict[str, str]:
    return (await client.get(CONFIG_MAPS, "words", namespace=namespace)).data


async def test_what_was_sent_before_is_brought_up_to_date(client: KubeClient, kubernetes_namespace: str) -> None:
    await send_object(client, kubernetes_namespace, config_map(one="1", two="2"))
    await send_object(client, kubernetes_namespace, config_map(one="3"))
    assert await data_of(client, kubernetes_namespace) == {"one": "3"}
    await send_object(client, kubernetes_namespace, secret(one="1", two="2"))
    await send_object(client, kubernetes_namespace, secret(one="3"))
    found = await client.get(SECRETS, "keys", namespace=kubernetes_namespace)
    assert found.data == {"one": base64.b64encode(b"3").decode()}


async def test_an_object_of_somebody_else_is_not_touched(client: KubeClient, kubernetes_namespace: str) -> None:
    theirs = {"metadata": {"name": "words"}, "data": {"one": "theirs"}}
    await client.apply(CONFIG_MAPS, theirs, namespace=kubernetes_namespace, field_manager="kubectl")
    await send_object(client, kubernetes_namespace, config_map(one="theirs"))
    for different in ({"one": "ours"}, {"one": "theirs", "two": "ours"}):
        with pytest.raises(ConflictError, match=r"ConfigMap 'words' in namespace '.*' was made or changed by kubectl"):
            await send_object(client, kubernetes_namespace, config_map(**different))
    assert await data_of(client, kubernetes_namespace) == {"one": "theirs"}


async def test_what_somebody_changed_since_is_not_changed_back(client: KubeClient, kubernetes_namespace: str) -> None:
    await send_object(client, kubernetes_namespace, config_map(one="1"))
    await client.patch(CONFIG_MAPS, "words", {"data": {"one": "theirs"}}, namespace=kubernetes_namespace)
    with pytest.raises(ConflictError, match="ConfigMap 'words'"):
        await send_object(client, kubernetes_namespace, config_map(one="2"))
    assert await data_of(client, kubernetes_namespace) == {"one": "theirs"}


async def test_a_file_with_a_job_and_its_objects_is_submitted_whole(
    kubeflow: World, kubernetes_cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    gangline = CommandLine(kubernetes_cluster, tmp_path, namespace=kubeflow.namespace)
    worker = replica("TFJob", script='echo "$greeting $token"')
    sources = [{"configMapRef": {"name": "words"}}, {"secretRef": {"name": "keys"}}]
    worker["template"]["spec"]["containers"][0]["envFrom"] = sources
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", **job_object("TFJob", "greets", {"Worker": worker})}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([config_map(greeting="hello"), secret(token="world"), job]))
    await gangline("submit", "-f", "all.yaml")
    play = Play(kubeflow, "TFJob", "greets")
    ended = await play.done("Succeeded")
    job_id = JobId(ended.metadata.labels["gangline.dev/job-id"])
    assert [line.text async for line in kubeflow.engine.logs(LogQuery(job_id=job_id))] == ["hello world"]
    await kubeflow.client.patch(CONFIG_MAPS, "words", {"data": {"greeting": "?"}}, namespace=kubeflow.namespace)
    refused = await gangline("submit", "-f", "all.yaml", want_code=4)
    assert "ConfigMap 'words' in namespace" in refused
