"""Which ConfigMaps the controller of a cluster reads for whom: it may read all of them, their namespaces may not."""

import pytest

from gangline.compose.cluster import read_config_map
from gangline.kube import CONFIG_MAPS, KubeClient
from gangline.model import Tenant
from tests.apiserver import ApiServer

TEMPLATE = {"katib.kubeflow.org/component": "trial-templates"}


@pytest.mark.parametrize(
    ("tenant", "labels", "read"),
    [("default", {}, True), ("team-b", {}, False), ("team-b", TEMPLATE, True), ("team-b", {"mine": "yes"}, False)],
)
async def test_a_namespace_reads_its_own_and_what_others_share(tenant: str, labels: dict[str, str], read: bool) -> None:
    async with ApiServer.running() as (_, access), KubeClient(access) as client:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "templates", "namespace": "default", "labels": labels},
            "data": {"small": "text"},
        }
        await client.create(CONFIG_MAPS, body, namespace="default")
        found = await read_config_map(client, Tenant(tenant), "default", "templates")
        assert found == ({"small": "text"} if read else None)
        assert await read_config_map(client, Tenant(tenant), "default", "missing") is None
